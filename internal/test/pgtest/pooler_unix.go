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

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// poolerSettings accept every client as the server's user. A client has a
// session for one transaction at a time. There are fewer sessions than clients,
// so consecutive statements of a client meet different sessions.
const poolerSettings = `[databases]
vault = host='%s' port=%d dbname='%s' user='%s'%s%s
[pgbouncer]
pool_mode = transaction
default_pool_size = 5
max_client_conn = 1000
unix_socket_dir = %s
listen_port = ` + PoolerPort + `
auth_type = any
`

// pooler runs PgBouncer in its folder.
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

// Pooler starts PgBouncer in transaction mode in front of a server. It returns
// the address through PgBouncer, with the same schema if the given address
// names one. PgBouncer stops when the test ends. If it is not installed, Pooler
// returns the address unchanged and says so in the test's log.
func Pooler(t testing.TB, address string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Log("pgtest: PgBouncer is not installed: this test runs on PostgreSQL itself, without a pooler")
			return address
		}
	}
	config, dir := must.Get(pq.NewConfig(address))(t), must.Get(os.MkdirTemp("", "vaultpg"))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "settings"), []byte(settingsOfPooler(&config, dir)), 0o644))
	k := must.Get(keep(dir, pooler, program))(t)
	t.Cleanup(func() { must.Do(t, k.stop()) })
	return "postgres:///vault?" + url.Values{
		"host": {dir}, "port": {PoolerPort}, "user": {config.User}, "sslmode": {"disable"},
	}.Encode()
}

// settingsOfPooler returns PgBouncer's configuration file, with a socket in a
// folder.
func settingsOfPooler(config *pq.Config, dir string) string {
	password, path := "", ""
	if config.Password != "" {
		password = " password='" + config.Password + "'"
	}
	if own := config.Runtime["search_path"]; own != "" {
		path = " connect_query='SET search_path TO " + own + "'"
	}
	return fmt.Sprintf(poolerSettings, config.Host, config.Port, config.Database, config.User, password, path, dir)
}
