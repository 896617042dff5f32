package link

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUpUnanswered limits how long sent data may stay unacknowledged.
// Keep-alive probes do not help during a request, and the system's own limit is
// 15 minutes.
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
