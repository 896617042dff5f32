package postgres

import (
	"context"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
)

// Writes for a server that hangs leave connections for the tenants of others.
func TestWritesToHungServerLeaveConnections(t *testing.T) {
	t.Parallel()
	q := newManualQueue(t, 4, false)
	write := func(server int32) {
		q.calls.Go(func() {
			if err := q.do(context.Background(), &pending{change: &storage.Change{}, class: alone, Turn: citus.Turn{Server: server, Most: 2}}); err != nil {
				t.Error(err)
			}
		})
	}
	for range 10 {
		write(1)
	}
	<-q.begun
	<-q.begun
	for q.arrived() < 8 {
		select {
		case <-q.begun:
			t.Fatal("a third statement began for one server")
		default:
		}
	}
	write(2)
	<-q.begun // although the server before it hangs
	q.calls.Go(func() {
		for range 8 {
			<-q.begun
		}
	})
	for range 11 {
		q.end <- struct{}{}
	}
}
