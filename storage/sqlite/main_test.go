package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// childEnv makes the test binary act as another process that writes to the
// named database, instead of running the tests.
const childEnv = "VAULT_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := runChild(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const childTokens = 40

// runChild competes with other processes, and prints how many shared tokens it got.
func runChild(path string) error {
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	won, err := compete(s)
	fmt.Println(won)
	return errors.Join(err, s.Close())
}

// compete inserts own tokens, and tries to insert tokens that every process wants. It
// returns how many of the latter it got.
func compete(s *Store) (won int, err error) {
	ctx := context.Background()
	for i := range childTokens {
		own := token(fmt.Sprintf("own-%d-%d", os.Getpid(), i))
		if err := s.Write(ctx, insert(own)); err != nil {
			return won, err
		}
		switch err := s.Write(ctx, insert(token(fmt.Sprintf("shared-%d", i)))); {
		case err == nil:
			won++
		case !isConflict(err, storage.TokenIDTaken):
			return won, err
		}
	}
	return won, nil
}

// startChild runs runChild in a separate process. It returns a function that
// waits for its output.
func startChild(t *testing.T, path string) func() int {
	t.Helper()
	executable := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	must.Do(t, cmd.Start())
	return func() int {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("the other process: %v: %s", err, errs.String())
		}
		won := must.Get(strconv.Atoi(strings.TrimSpace(out.String())))(t)
		return won
	}
}

var (
	tenant   = storage.ID{1}
	someTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	ordinals atomic.Uint64
)

// newID returns an id that sorts after all earlier ones of this process.
func newID() storage.ID {
	var id storage.ID
	binary.BigEndian.PutUint64(id[:], ordinals.Add(1))
	binary.BigEndian.PutUint32(id[12:], uint32(os.Getpid()))
	return id
}

func token(id string) storage.Token {
	return storage.Token{
		Ord: newID(), ID: id, Type: "token", Set: storage.Hash{1}, Containers: []string{"/general/high/"},
		Fingerprint: storage.Key{2}, Expression: storage.Hash{3}, KeyVersion: 1, Body: []byte("sealed"), CreatedAt: someTime,
	}
}

func logEntry() storage.Log {
	return storage.Log{ID: newID(), EntityType: "token", Operation: "read", CreatedAt: someTime}
}

func insert(tokens ...storage.Token) *storage.Change {
	return &storage.Change{Tenant: tenant, Now: someTime, InsertTokens: tokens, Logs: []storage.Log{logEntry()}}
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "vault.db") }

// open opens a database and closes it at the end of the test.
func open(t *testing.T, path string) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), path))(t)
	t.Cleanup(func() {
		must.Match(t, "Close", s.Close(), nil)
	})
	return s
}

func write(t *testing.T, s *Store, c *storage.Change) {
	t.Helper()
	must.Do(t, s.Write(t.Context(), c))
}

// number queries a number on a reading connection of the store.
func number(t *testing.T, s *Store, query string, args ...any) (n int) {
	t.Helper()
	err := sqlstore.Do(t.Context(), s.reader, func(conn *sql.Conn) error {
		return conn.QueryRowContext(t.Context(), query, args...).Scan(&n)
	})
	must.Do(t, err)
	return n
}

// total returns the number of tokens by the counters and in the table.
func total(t *testing.T, s *Store) (counted, stored int) {
	t.Helper()
	_, counted, err := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: tenant, Count: true})
	must.Do(t, err)
	stored = number(t, s, `SELECT count(*) FROM vault_tokens WHERE tenant_id = ?`, tenant[:])
	return counted, stored
}
