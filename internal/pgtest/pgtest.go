// Package pgtest gives tests a schema of their own on a real PostgreSQL: as
// good as a database of their own, and created and dropped in a tenth of the
// time. [URL] returns an empty schema. [Schemas] lends schemas that have tables.
//
// The server is the one that VAULT_TEST_POSTGRES names (a URL of a role that
// may create schemas), or else a private one: it looks for the binaries and
// creates a cluster in a temporary folder, in memory if possible; server and
// folder go away with the test process, however it ends.
//
// There is no private Citus cluster: tests that need one run where VAULT_TEST_CITUS
// names its coordinator (a URL of a role that may create schemas).
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"net/url"
	"os"
	"sync"
	"testing"

	_ "github.com/lib/pq" // the driver that creates and drops schemas
)

const (
	// EnvServer names a running server.
	EnvServer = "VAULT_TEST_POSTGRES"
	// PoolerPort is the port in an address that leads to a pooler: see Pooled.
	PoolerPort = "6432"
	// EnvRequire makes a missing server a failure when it is set. So does CI.
	EnvRequire = "VAULT_TEST_REQUIRE_POSTGRES"
)

// URL returns the address of an empty schema, which is dropped when the test
// ends: a database URL whose search_path is that schema alone. Without a server
// the test is skipped, or fails where a server is required.
func URL(t testing.TB) string {
	t.Helper()
	return emptySchema(t, Server(t))
}

// Schema returns the name of an empty schema, which is dropped when the test ends,
// beside the one that [URL] returns.
func Schema(t testing.TB) string {
	t.Helper()
	address, err := url.Parse(URL(t))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return address.Query().Get("search_path")
}

// Server returns the URL of the server that all tests of this process use. Without
// a server it skips the test, or fails it where a server is required.
func Server(t testing.TB) string {
	t.Helper()
	server, err := sharedServer()
	if err == nil {
		return server
	}
	if os.Getenv(EnvRequire) != "" || os.Getenv("CI") != "" {
		t.Fatalf("pgtest: a PostgreSQL server is required: %v", err)
	}
	t.Skipf("pgtest: no PostgreSQL server (%v); install one, for example with apt-get install postgresql, "+
		"or set %s to the URL of one", err, EnvServer)
	return ""
}

// emptySchema makes a schema on a server, which is dropped when the test ends, and
// returns its address.
func emptySchema(t testing.TB, server string) string {
	t.Helper()
	name := "vault_test_" + randomName()
	own, err := withParameter(server, "search_path", name)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if err := admin(server, "CREATE SCHEMA "+name); err != nil {
		t.Fatalf("pgtest: creating a schema: %v", err)
	}
	t.Cleanup(func() {
		if err := admin(server, "DROP SCHEMA "+name+" CASCADE"); err != nil {
			t.Errorf("pgtest: dropping the schema: %v", err)
		}
	})
	return own
}

// sharedServer returns the URL of the server that all tests of this process use.
var sharedServer = sync.OnceValues(func() (string, error) {
	if server := os.Getenv(EnvServer); server != "" {
		return server, nil
	}
	var err error
	if private, err = Start(); err != nil {
		return "", err
	}
	return private.URL, nil
})

// private is kept reachable: its server runs for as long as its pipe is open,
// and an unreachable pipe is closed by the garbage collector.
var private *Cluster

// admin runs one statement on the server.
func admin(server, statement string) error {
	db, err := sql.Open("postgres", server)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the statement has succeeded or failed by then
	_, err = db.ExecContext(context.Background(), statement)
	return err
}

// withParameter returns the server's URL with a parameter in it.
func withParameter(server, name, value string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the address of the server is not a URL")
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
