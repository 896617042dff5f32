package postgres_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

func TestAsyncCommitIsRejected(t *testing.T) {
	t.Parallel()
	address := with(t, postgres.Vaults.URL(t), "synchronous_commit", "off")
	s, err := postgres.Open(t.Context(), address)
	must.Match(t, "a server without fsync", err, postgres.ErrNotDurable)
	if err == nil {
		s.Close()
	}
	openAt(t, address, &postgres.Options{AllowAsyncCommit: true})
}

// TestOnlyReadLogsAreUnsynced checks that logs of reads are committed without
// syncing, on their own connection and on a shared one. A change that only
// claims to be a log of reads is synced.
func TestOnlyReadLogsAreUnsynced(t *testing.T) {
	t.Parallel()
	for name, connections := range map[string]int{"own connection": 3, "shared connection": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := postgres.Vaults.URL(t)
			s := openAt(t, address, &postgres.Options{MaxConns: connections})
			db := database(t, address)
			must.Get(db.Exec(seeCommits))(t)
			tenant := newID()
			for _, test := range []struct {
				relaxed, token bool
				want           string
			}{{false, true, "on"}, {true, true, "on"}, {false, false, "on"}, {true, false, "off"}, {false, true, "on"}} {
				c := sample(tenant, 1)
				c.Relaxed = test.relaxed
				if !test.token {
					c.InsertTokens = nil
				}
				must.Do(t, s.Write(t.Context(), c))
				var got string
				must.Do(t, db.QueryRow("DELETE FROM seen RETURNING setting").Scan(&got))
				if got != test.want {
					t.Errorf("relaxed %v, token %v: synchronous_commit was %s at the commit, want %s", test.relaxed, test.token, got, test.want)
				}
			}
		})
	}
}

// seeCommits stores the setting that each commit with a log entry has.
const seeCommits = `CREATE TABLE seen (setting text);
	CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
	BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
	CREATE CONSTRAINT TRIGGER see AFTER INSERT ON vault_logs DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION see()`

// TestLaterSettingsDoNotLoseCommits turns synchronous commits off for the vault's role
// while the vault is open, and makes the vault connect again.
func TestLaterSettingsDoNotLoseCommits(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	db, role := database(t, address), "r"+strings.ReplaceAll(uuid.NewString(), "-", "")
	must.Get(db.Exec("CREATE ROLE " + role + " LOGIN SUPERUSER PASSWORD 'once'; " + seeCommits))(t)
	t.Cleanup(func() { must.Get(db.Exec("DROP ROLE " + role))(t) })
	s := openAt(t, with(t, with(t, address, "user", role), "password", "once"), nil)
	must.Do(t, s.Write(t.Context(), sample(newID(), 1)))
	must.Get(db.Exec("ALTER ROLE " + role + " SET synchronous_commit = off"))(t)
	must.Get(db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'"))(t)
	must.Do(t, s.Write(t.Context(), sample(newID(), 1)))
	var seen string
	must.Do(t, db.QueryRow("SELECT string_agg(setting, ', ') FROM seen").Scan(&seen))
	must.Same(t, "the setting of both commits", "on, on", seen)
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	address := postgres.Vaults.URL(t)
	elsewhere := must.Get(url.Parse(address))(t)
	elsewhere.Path = "/missing"
	tests := map[string]struct {
		url     string
		options *postgres.Options
		says    string
	}{
		"not a URL":         {url: "postgres://vault:" + secret + "@ho st/x", says: "malformed"},
		"not pairs":         {url: "password=" + secret + " user", says: "malformed"},
		"too few":           {url: "postgres://vault:" + secret + "@localhost/x", options: &postgres.Options{MaxConns: 1}, says: "MaxConns"},
		"no server":         {url: "host=/nonexistent password=" + secret, says: "no connection"},
		"none of the hosts": {url: "host=/nonexistent,/missing password=" + secret, says: "no connection"},
		"no TLS":            {url: "postgres://vault:" + secret + "@" + withoutTLS(t) + "/x", says: "sslmode=disable"},
		"no such role":      {url: with(t, address, "user", "nobody_here"), says: "rejects this role"},
		"no such database":  {url: elsewhere.String(), says: "create the database first"},
		// Every connection of a store requires a session that accepts writes.
		"read-only session": {url: with(t, address, "default_transaction_read_only", "on"), says: "read-only"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := postgres.OpenOptions(t.Context(), test.url, test.options)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %q, want it to say %q", err, test.says)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q holds the password", err)
			}
		})
	}
}

// withoutTLS returns the address of a server that responds to every request for
// TLS as PostgreSQL without TLS does.
func withoutTLS(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := io.ReadFull(conn, make([]byte, 8)); err == nil { // the request
				_, _ = conn.Write([]byte("N"))
			}
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// TestFailoverFindsThePrimary lists a host that does not respond before the
// host that does.
func TestFailoverFindsThePrimary(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Vaults.URL(t))
	dir := p.listener.Addr().String()
	dir = dir[:strings.LastIndex(dir, "/")]
	s := openAt(t, with(t, p.address, "host", t.TempDir()+","+dir), nil)
	tenant := newID()
	for range 3 {
		p.cut.Store(loseAnswer)
		must.Do(t, s.Write(t.Context(), sample(tenant, 1)))
	}
}

// TestErrorsDoNotQuoteRows makes the server reject a row and looks for the row in the
// error.
func TestErrorsDoNotQuoteRows(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Vaults.URL(t), nil)
	const canary = "canary"
	c := sample(newID(), 1)
	c.InsertTokens[0].ID = canary + "\x00"
	err := s.Write(t.Context(), c)
	var server *postgres.ServerError
	if !errors.As(err, &server) || server.Code == "" {
		t.Fatalf("got %v, want a ServerError", err)
	}
	if strings.Contains(err.Error(), canary) {
		t.Errorf("%q quotes the row", err)
	}
	twice := sample(newID(), 1)
	must.Do(t, s.Write(t.Context(), twice))
	again := sample(twice.Tenant, 1)
	again.Logs[0] = twice.Logs[0]
	err = s.Write(t.Context(), again)
	if !errors.As(err, &server) || server.Constraint != "vault_logs_pkey" {
		t.Errorf("got %v for a log id that is taken, want a ServerError that names vault_logs_pkey", err)
	}
}
