package link

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDialerNoticesADeadPeer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := newDialer(0).DialTimeout("tcp", l.Addr().String(), deadPeer)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*line).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for name, option := range map[string][2]int{
			"TCP_USER_TIMEOUT": {unix.TCP_USER_TIMEOUT, int(deadPeer.Milliseconds())},
			"TCP_KEEPIDLE":     {unix.TCP_KEEPIDLE, int(deadPeer.Seconds()) / 3},
		} {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option[0]); err != nil || got != option[1] {
				t.Errorf("%s is %d (%v), want %d", name, got, err, option[1])
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
