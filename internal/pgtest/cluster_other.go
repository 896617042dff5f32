//go:build !unix

package pgtest

import (
	"errors"
	"testing"
)

// Cluster is a running private server. There is none on this system.
type Cluster struct {
	URL string
}

// Start always fails: a private server needs unix sockets and process groups.
func Start() (*Cluster, error) {
	return nil, errors.New("a private PostgreSQL server cannot be started on this system")
}

// Stop does nothing.
func (*Cluster) Stop() error { return nil }

// Pooled is URL: a pooler cannot be started on this system.
func Pooled(t testing.TB) string { return URL(t) }
