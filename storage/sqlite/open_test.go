package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func contains(content []byte, text string) bool { return bytes.Contains(content, []byte(text)) }

func pragma(t *testing.T, conn *sql.Conn, name string) string {
	t.Helper()
	var value string
	must.Do(t, conn.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value))
	return value
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	reader := must.Get(s.readers.Conn(t.Context()))(t)
	defer reader.Close()
	for _, test := range []struct {
		name string
		conn *sql.Conn
		want map[string]string
	}{
		{"writer", s.writes.writer.conn, map[string]string{
			"journal_mode": "wal", "synchronous": "2", "busy_timeout": "0", "wal_autocheckpoint": "8000",
			"secure_delete": "1", "temp_store": "2", "query_only": "0",
		}},
		{"reader", reader, map[string]string{
			"journal_mode": "wal", "busy_timeout": "10000", "temp_store": "2", "query_only": "1", "mmap_size": "0",
		}},
	} {
		got := map[string]string{}
		for name := range test.want {
			got[name] = pragma(t, test.conn, name)
		}
		must.Same(t, test.name, test.want, got)
	}
}

// A setting that has no effect must be noticed.
func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	f := must.Get(locate(newPath(t)))(t)
	for want, wrong := range map[string]setting{"PRAGMA synchronous is 0 and cannot be set to 7": {"synchronous", "7"}, "PRAGMA no_such_pragma: ": {"no_such_pragma", "1"}} {
		db := must.Get(f.open([]setting{wrong}, 1))(t)
		must.Fail(connect(t.Context(), db, []setting{wrong}))(t, "PRAGMA "+wrong.name+" was not rejected", must.Text(want))
		must.Do(t, db.Close())
	}
}

func TestOnlyTheOwnerCanReadFiles(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	write(t, open(t, path), insert(token("a")))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info := must.Get(os.Stat(path + suffix))(t)
		must.Same(t, "vault.db"+suffix+" has mode", fs.FileMode(0o600), info.Mode().Perm())
	}
}

func TestExistingFileKeepsItsMode(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	must.Do(t, os.WriteFile(path, nil, 0o640))
	open(t, path)
	info := must.Get(os.Stat(path))(t)
	must.Same(t, "the mode became", fs.FileMode(0o640), info.Mode().Perm())
}

func TestPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"with space.db", "what?.db", "50%41.db", "a#b.db", "größe.db", "amp&_pragma=x.db"} {
		path := filepath.Join(dir, name)
		write(t, open(t, path), insert(token("a")))
		must.Get(os.Stat(path))(t)
	}
	files := must.Get(filepath.Glob(filepath.Join(dir, "*.db")))(t)
	must.Same(t, "databases in the folder", 6, len(files))
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	notADatabase := newPath(t)
	must.Do(t, os.WriteFile(notADatabase, []byte(strings.Repeat("not a database ", 100)), 0o600))
	for name, path := range map[string]string{
		"no such folder": filepath.Join(t.TempDir(), "missing", "vault.db"),
		"a folder":       t.TempDir(),
		"not a database": notADatabase,
		"no path":        "",
	} {
		s, err := Open(t.Context(), path)
		if err == nil {
			t.Errorf("%s: Open succeeded", name)
			_ = s.Close()
		} else if says := "sqlite: opening " + strconv.Quote(path); !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %q, want it to say %q", name, err, says)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fail(Open(cancelled, newPath(t)))(t, "a cancelled context", context.Canceled)
}

func TestNewerMajorSchemaIsRejected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		version int
		want    error
	}{
		{"a later addition is ignored", 1999, nil},
		{"a later major version is refused", 2001, storage.ErrNewerSchema},
	} {
		path := newPath(t)
		s := open(t, path)
		must.Get(s.writes.writer.conn.ExecContext(t.Context(), `INSERT INTO vault_migrations SELECT ?, vault_id FROM vault_migrations LIMIT 1`, test.version))(t)
		again, err := Open(t.Context(), path)
		must.Match(t, test.name, err, test.want)
		if err == nil {
			_ = again.Close()
		}
	}
}

func TestProcessesShareADatabase(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	wait := []func() int{startChild(t, path), startChild(t, path)}
	s := open(t, path) // and migrate it, as the other processes do
	won := must.Get(compete(s))(t)
	for _, w := range wait {
		won += w()
	}
	must.Same(t, "inserts", childTokens, won)
	must.Same(t, "migrations ran", len(Migrations()), number(t, s, `SELECT count(*) FROM vault_migrations`))
	want := 3*childTokens + childTokens
	if counted, stored := total(t, s); counted != want || stored != want {
		t.Errorf("counted %d and stored %d tokens, want %d", counted, stored, want)
	}
}

func TestDatabasesInMemoryAreSeparate(t *testing.T) {
	t.Parallel()
	a, b := open(t, ":memory:"), open(t, ":memory:")
	write(t, a, insert(token("a")))
	if counted, _ := total(t, a); counted != 1 {
		t.Errorf("the readers see %d tokens, want 1", counted)
	}
	if counted, _ := total(t, b); counted != 0 {
		t.Errorf("another database has %d tokens, want 0", counted)
	}
}

// Files that stay open after Close mean that a connection was not released.
func TestCloseReleasesTheFiles(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not list open files under /proc")
	}
	path := newPath(t)
	s := open(t, path)
	write(t, s, insert(token("a")))
	must.Get(s.Tokens(t.Context(), tenant, []string{"a"}))(t)
	if openFiles(t, path) == 0 {
		t.Fatal("no file is open before Close: the test looks at the wrong files")
	}
	must.Do(t, s.Close())
	must.Same(t, "files are open after Close", 0, openFiles(t, path))
	must.Fail(os.Stat(path+"-wal"))(t, "the write-ahead log still exists", os.ErrNotExist)
}

func openFiles(t *testing.T, path string) int {
	t.Helper()
	fds := must.Get(os.ReadDir("/proc/self/fd"))(t)
	n := 0
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(target, path) {
			n++
		}
	}
	return n
}

// A short list of values is sent as placeholders, and a long one as a single
// text. Both must find the same.
func TestShortAndLongListsFindTheSame(t *testing.T) {
	t.Parallel()
	s := open(t, ":memory:")
	ids := []string{"plain", `quote"d`, "größe", `back\slash`, "a,b", "null", " 1"}
	for _, id := range ids {
		write(t, s, insert(token(id)))
	}
	for _, n := range []int{len(ids), maxExpanded, maxExpanded + 1, 40_000} {
		wanted := storage.IDIn(slices.Clone(ids))
		sets := storage.SetIn{{1}}
		for i := len(ids); i < n; i++ {
			wanted = append(wanted, fmt.Sprintf("missing-%d", i))
			sets = append(sets, storage.Hash{9, byte(i), byte(i >> 8), byte(i >> 16)})
		}
		for name, where := range map[string]storage.Cond{"ids": wanted, "sets": sets} {
			page, total, err := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: tenant, Where: where, Limit: 3, Count: true})
			must.Do(t, err)
			if len(page) != 3 || total != len(ids) {
				t.Errorf("%d %s: got %d of %d tokens, want 3 of %d", n, name, len(page), total, len(ids))
			}
		}
	}
}

// A symbolic link stands for its target, even if the target does not exist yet.
// The new file is readable only by its owner, and the log next to it is the one
// that is synced.
func TestSymbolicLinkOpensItsTarget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real.db"), filepath.Join(dir, "link.db")
	must.Do(t, os.Symlink("real.db", link))
	s := open(t, link)
	write(t, s, insert(token("a")))
	for _, path := range []string{file, s.writes.writer.file.path + "-wal"} {
		info := must.Get(os.Stat(path))(t)
		must.Same(t, filepath.Base(path)+" has the mode", fs.FileMode(0o600), info.Mode().Perm())
	}
}
