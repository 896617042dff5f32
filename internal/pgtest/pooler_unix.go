//go:build unix

package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lib/pq"
)

// poolerSettings let every client in as the server's user, and give it a
// session for one transaction at a time: fewer sessions than clients, so that
// consecutive statements meet different ones.
const poolerSettings = `[databases]
vault = host='%s' port=%d dbname='%s' user='%s'%s connect_query='SET search_path TO %s'
[pgbouncer]
pool_mode = transaction
default_pool_size = 5
unix_socket_dir = %s
listen_port = ` + PoolerPort + `
auth_type = any
`

// pooler runs PgBouncer in the folder.
const pooler = `
program=$2
"$program" "$dir/settings" >"$dir/log" 2>&1 &
until grep -q "process up" "$dir/log"; do
	kill -0 $! 2>/dev/null || { echo failed; tail -n 5 "$dir/log"; break; }
	sleep 0.02
done
grep -q "process up" "$dir/log" && echo ready
cat >/dev/null
kill -KILL $! 2>/dev/null
`

// Pooled returns the address of an empty schema as URL does, but, where
// PgBouncer is installed, through it in transaction mode. The test's log says
// where it is not.
func Pooled(t testing.TB) string {
	t.Helper()
	own := URL(t)
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Log("pgtest: PgBouncer is not installed: this test runs on PostgreSQL itself, without a pooler")
			return own
		}
	}
	config, err := pq.NewConfig(own)
	if err != nil {
		t.Fatal("pgtest: the server's URL is malformed")
	}
	dir, err := os.MkdirTemp("", "vaultpg")
	if err != nil {
		t.Fatal(err)
	}
	password := ""
	if config.Password != "" {
		password = " password='" + config.Password + "'"
	}
	text := fmt.Sprintf(poolerSettings, config.Host, config.Port, config.Database, config.User, password,
		config.Runtime["search_path"], dir)
	if err := os.WriteFile(filepath.Join(dir, "settings"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	k, err := keep(dir, pooler, program)
	if err != nil {
		t.Fatalf("pgtest: PgBouncer: %v", err)
	}
	t.Cleanup(func() {
		if err := k.stop(); err != nil {
			t.Errorf("pgtest: stopping PgBouncer: %v", err)
		}
	})
	return "postgres:///vault?" + url.Values{
		"host": {dir}, "port": {PoolerPort}, "user": {config.User}, "sslmode": {"disable"},
	}.Encode()
}
