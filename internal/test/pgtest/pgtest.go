// Package pgtest gives every test its own schema on a real PostgreSQL server. A
// schema isolates as well as a database, and takes a tenth of the time to
// create and drop. [URL] returns an empty schema. [Schemas] lends schemas that
// already have tables.
//
// VAULT_TEST_POSTGRES names the server: the URL of a role that may create
// schemas. If it is not set, pgtest looks for the PostgreSQL programs and
// creates a private cluster in a temporary folder, in memory if possible.
// Server and folder disappear with the test process, however it ends.
//
// There is no private Citus cluster. VAULT_TEST_CITUS names a coordinator: the
// URL of a role that may create schemas. Tests that need Citus run only if it
// is set.
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	_ "github.com/lib/pq" // the driver that creates and drops schemas

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const (
	// EnvServer is the environment variable with the URL of a running server.
	EnvServer = "VAULT_TEST_POSTGRES"
	// PoolerPort is the port in every address of a pooler: see [Pooler].
	PoolerPort = "6432"
	// EnvFiles is the environment variable with a folder that private clusters are
	// copied from, so that not every process has to create one.
	EnvFiles = "VAULT_TEST_POSTGRES_FILES"
	// EnvRequire is an environment variable. If it or CI is set, tests without
	// a server fail instead of being skipped.
	EnvRequire = "VAULT_TEST_REQUIRE_POSTGRES"
)

// URL returns a database URL whose search_path is one new, empty schema. The
// schema is dropped when the test ends. Without a server the test is skipped,
// or fails if [EnvRequire] is set.
func URL(t testing.TB) string {
	t.Helper()
	return emptySchema(t, Server(t))
}

// Alone is like [URL], on the server of [Own].
func Alone(t testing.TB) string {
	t.Helper()
	return emptySchema(t, Own(t))
}

// Own returns the URL of a server that only this process uses. Use it for tests that
// wait for the end of all transactions on the server: with [EnvServer], those of other
// packages' tests count too. If no private server can be started, it returns the shared
// one.
func Own(t testing.TB) string {
	t.Helper()
	server, err := privateServer()
	if err != nil {
		server = Server(t)
	}
	return server
}

// Schema returns the name of another empty schema, which is dropped when the
// test ends.
func Schema(t testing.TB) string {
	t.Helper()
	return SchemaOf(t, URL(t))
}

// Server returns the URL of the server that all tests of this process share.
// Without a server it skips the test, or fails it if [EnvRequire] is set.
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

// newSchema returns the name of a schema that does not exist yet.
func newSchema() string { return "vault_test_" + strings.ToLower(rand.Text()) }

// emptySchema creates a schema, drops it when the test ends, and returns its
// address.
func emptySchema(t testing.TB, server string) string {
	t.Helper()
	name := newSchema()
	own := must.Get(withParameter(server, "search_path", name))(t)
	must.Do(t, admin(server, "CREATE SCHEMA "+name))
	t.Cleanup(func() { must.Do(t, admin(server, "DROP SCHEMA "+name+" CASCADE")) })
	return own
}

// sharedServer returns the URL of the server that all tests of this process
// share.
var sharedServer = sync.OnceValues(func() (string, error) {
	if server := os.Getenv(EnvServer); server != "" {
		return server, nil
	}
	return privateServer()
})

// privateServer returns the URL of this process's own server.
var privateServer = sync.OnceValues(func() (string, error) {
	var err error
	if private, err = Start(); err != nil {
		return "", err
	}
	return private.URL, nil
})

// private keeps the cluster reachable. The server runs while its pipe is open,
// and the garbage collector closes an unreachable pipe.
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

// withParameter returns the server's URL with a query parameter set.
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
