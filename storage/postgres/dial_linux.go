package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUpUnanswered bounds how long sent data may stay unacknowledged: keep-alive
// probes do not help while a request is under way, and the system's own bound is
// a quarter of an hour.
func giveUpUnanswered(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadPeer.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
