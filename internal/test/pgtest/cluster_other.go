//go:build !unix

package pgtest

import (
	"errors"
	"testing"
)

// Cluster is a running server. This operating system does not support it.
type Cluster struct {
	URL, Dir, Files string
}

var errNoCluster = errors.New("a private PostgreSQL server cannot be started on this system")

// Start always fails: a private server needs unix sockets and process groups.
func Start(...string) (*Cluster, error) { return nil, errNoCluster }

// Adopt always fails.
func Adopt(testing.TB, string) (*Cluster, error) { return nil, ErrElsewhere }

// Stop does nothing.
func (*Cluster) Stop() error { return nil }

// Control always fails.
func (*Cluster) Control(...string) error { return errNoCluster }

// Follow always fails.
func (*Cluster) Follow(*Cluster) error { return errNoCluster }

// Pooler returns the address unchanged, because PgBouncer cannot be started on
// this system. It says so in the test's log.
func Pooler(t testing.TB, address string) string {
	t.Helper()
	t.Log("pgtest: PgBouncer cannot be started here: this test runs on PostgreSQL itself, without a pooler")
	return address
}
