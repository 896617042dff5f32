//go:build !race

package bench

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/lib/pq"
	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// TestCallsTakeFewAllocationsAndStatements holds the cost of the two most
// common calls: allocations in the process, including the driver, and
// statements that the database runs. Each is the fewest of many single calls.
// The bounds on allocations leave room for pools that lose items.
func TestCallsTakeFewAllocationsAndStatements(t *testing.T) { //nolint:paralleltest // other tests would allocate
	for _, test := range []struct {
		on   *backend
		open func(t *testing.T) (dsn string, statements *atomic.Int64)
		// the most of each
		createAllocations, readAllocations float64
		createStatements, readStatements   int64
		evidence                           *vault.EvidenceConfig
	}{
		{onSQLite, countOnSQLite, 114, 90, 8, 5, nil},
		{onPostgres, countOnPostgres, 51, 46, 1, 1, nil},
		{onSQLite, countOnSQLite, 116, 92, 8, 5, &vault.EvidenceConfig{Every: -1}},
		{onPostgres, countOnPostgres, 53, 48, 1, 1, &vault.EvidenceConfig{Every: -1}},
	} {
		t.Run(fmt.Sprintf("%s, evidence %t", test.on.name, test.evidence != nil), func(t *testing.T) {
			dsn, statements := test.open(t)
			u := newUserWith(t, test.on.openStore(t, dsn), &vault.Config{Evidence: test.evidence})
			ids := createGeneric(t, u.Client, 1)
			for _, call := range []struct {
				name        string
				do          func() error
				allocations float64
				statements  int64
			}{
				{"create", func() error { return createCard(context.Background(), u.Client) }, test.createAllocations, test.createStatements},
				{"read", func() error { _, err := u.GetToken(context.Background(), ids[0]); return err }, test.readAllocations, test.readStatements},
			} {
				allocations, ran := fewest(t, statements, call.do)
				t.Logf("a %s takes %.0f allocations and %d statements", call.name, allocations, ran)
				if allocations > call.allocations {
					t.Errorf("a %s takes %.0f allocations, want at most %.0f", call.name, allocations, call.allocations)
				}
				if ran > call.statements {
					t.Errorf("a %s takes %d statements, want at most %d", call.name, ran, call.statements)
				}
			}
		})
	}
}

// fewest returns the fewest allocations and the fewest statements of a call.
func fewest(t *testing.T, statements *atomic.Int64, call func() error) (allocations float64, ran int64) {
	t.Helper()
	const calls = 400
	once := func() {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	allocations, ran = testing.AllocsPerRun(1, once), 1<<62
	for range calls {
		allocations = min(allocations, testing.AllocsPerRun(1, once))
		before := statements.Load()
		once()
		ran = min(ran, statements.Load()-before)
	}
	return allocations, ran
}

// countOnSQLite returns a file, and the number of statements that its
// connections have run.
func countOnSQLite(t *testing.T) (dsn string, statements *atomic.Int64) {
	t.Helper()
	dsn, statements = onSQLite.create(t), &atomic.Int64{}
	trace := func(_ *libc.TLS, _ uint32, _, _, _ uintptr) int32 {
		statements.Add(1)
		return 0
	}
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, name string) error {
		if strings.Contains(name, dsn) {
			c := reflect.ValueOf(conn).Elem()
			callback := *(*uintptr)(unsafe.Pointer(&trace)) // the driver's form of a function pointer
			tls := (*libc.TLS)(c.FieldByName("tls").UnsafePointer())
			sqlite3.Xsqlite3_trace_v2(tls, uintptr(c.FieldByName("db").Uint()), sqlite3.SQLITE_TRACE_STMT, callback, 0)
		}
		return nil
	})
	return dsn, statements
}

// countOnPostgres returns the address of a proxy to a server, and the number of
// statements that clients have sent through it.
func countOnPostgres(t *testing.T) (dsn string, statements *atomic.Int64) {
	t.Helper()
	address := onPostgres.create(t)
	config := must.Get(pq.NewConfig(address))(t)
	network, server := "tcp", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if strings.HasPrefix(config.Host, "/") {
		network, server = "unix", filepath.Join(config.Host, fmt.Sprintf(".s.PGSQL.%d", config.Port))
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	statements = &atomic.Int64{}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			to, err := net.Dial(network, server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(client, to); _ = client.Close() }()
			go func() { countMessages(to, client, statements); _ = to.Close() }()
		}
	}()
	u := must.Get(url.Parse(address))(t)
	u.Host = ""
	q := u.Query()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	q.Set("host", host)
	q.Set("port", port)
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String(), statements
}

// countMessages forwards the messages of a client and counts the statements
// that they run. It allocates nothing for a message, because that would count
// as an allocation of the call.
func countMessages(to io.Writer, client io.Reader, statements *atomic.Int64) {
	message := make([]byte, 1<<16)
	for head := 4; ; head = 5 { // the first message has no type
		if _, err := io.ReadFull(client, message[:head]); err != nil {
			return
		}
		if kind := message[0]; head == 5 && (kind == 'E' || kind == 'Q') { // Execute or Query
			statements.Add(1)
		}
		size := head - 4 + int(binary.BigEndian.Uint32(message[head-4:]))
		if size > len(message) {
			message = append(message, make([]byte, size-len(message))...)
		}
		if _, err := io.ReadFull(client, message[head:size]); err != nil {
			return
		}
		if _, err := to.Write(message[:size]); err != nil {
			return
		}
	}
}

// TestEvidenceWritesLittle holds the bytes of WAL for a call with evidence, which
// include sequencing and signing, against a call without. Each vault has a server of its
// own that writes no page images, so that only its calls write.
func TestEvidenceWritesLittle(t *testing.T) { //nolint:paralleltest // other tests would write
	const calls, rounds = 100, 4
	most := map[string]float64{"create": 1.15, "read": 1.2}
	without, with := map[string]int64{}, map[string]int64{}
	for _, evidence := range []*vault.EvidenceConfig{nil, {Every: -1}} {
		server := must.Get(pgtest.Start("full_page_writes = off", "autovacuum = off"))(t)
		t.Cleanup(func() { _ = server.Stop() })
		db := must.Get(sql.Open("postgres", server.URL))(t)
		t.Cleanup(func() { _ = db.Close() })
		u := newUserWith(t, onPostgres.openStore(t, server.URL), &vault.Config{Evidence: evidence})
		ids := createGeneric(t, u.Client, calls)
		for name, call := range map[string]func(i int) error{
			"create": func(int) error { return createCard(t.Context(), u.Client) },
			"read":   func(i int) error { _, err := u.GetToken(t.Context(), ids[i]); return err },
		} {
			least := int64(math.MaxInt64)
			for range rounds {
				least = min(least, walOf(t, db, func() error {
					for i := range calls {
						if err := call(i); err != nil {
							return err
						}
					}
					if evidence == nil {
						return nil
					}
					_, err := u.vault.Checkpoint(t.Context())
					return err
				}))
			}
			if evidence == nil {
				without[name] = least / calls
			} else {
				with[name] = least / calls
			}
		}
	}
	for name, most := range most {
		ratio := float64(with[name]) / float64(without[name])
		t.Logf("a %s writes %d bytes with evidence, %d without: %.2f", name, with[name], without[name], ratio)
		if ratio > most {
			t.Errorf("a %s writes %d bytes with evidence, %d without: %.2f, want %.2f at most", name, with[name], without[name], ratio, most)
		}
	}
}

// walOf returns the bytes of WAL that the server writes while do runs.
func walOf(t *testing.T, db *sql.DB, do func() error) int64 {
	t.Helper()
	now := func() (n int64) {
		must.Do(t, db.QueryRowContext(t.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n))
		return n
	}
	before := now()
	must.Do(t, do())
	return now() - before
}
