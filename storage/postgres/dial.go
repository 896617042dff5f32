package postgres

import (
	"context"
	"net"
	"time"
)

// deadPeer is after how long a server that no longer answers at all, because
// its machine or the network is gone, is given up. A server that is only slow
// still answers for its connections.
const deadPeer = 15 * time.Second

// dialer connects to a server so that its silent death is noticed.
type dialer struct{ net.Dialer }

func newDialer() *dialer {
	return &dialer{net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadPeer / 3, Interval: deadPeer / 3, Count: 2},
		Control:         giveUpUnanswered,
	}}
}

// DialTimeout is what lib/pq asks of a dialer beside Dial and DialContext.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}
