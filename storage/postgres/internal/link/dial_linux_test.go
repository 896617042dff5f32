package link

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestDialerNoticesADeadPeer(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	conn := must.Get(newDialer(0).DialTimeout("tcp", l.Addr().String(), deadPeer))(t)
	defer conn.Close()
	raw := must.Get(conn.(*line).Conn.(*net.TCPConn).SyscallConn())(t)
	err := raw.Control(func(fd uintptr) {
		for name, option := range map[string][2]int{
			"TCP_USER_TIMEOUT": {unix.TCP_USER_TIMEOUT, int(deadPeer.Milliseconds())},
			"TCP_KEEPIDLE":     {unix.TCP_KEEPIDLE, int(deadPeer.Seconds()) / 3},
		} {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option[0]); err != nil || got != option[1] {
				t.Errorf("%s is %d (%v), want %d", name, got, err, option[1])
			}
		}
	})
	must.Do(t, err)
}
