package sinks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const batchSize = 500

// installation is a database and a destination that outlive the nodes of a test.
type installation struct {
	open  func(context.Context) (vault.Storage, error)
	key   *vault.Key
	clock *vaulttest.Clock
	dest  *destination[vault.LogEntry]
	logs  bytes.Buffer
	admin *vault.Vault // has no sinks
	acme  *vault.Owner
}

func newInstallation(t *testing.T, open func(context.Context) (vault.Storage, error)) *installation {
	t.Helper()
	w := &installation{open: open, key: vault.NewKey(), clock: vaulttest.NewClock(vaulttest.Start), dest: &destination[vault.LogEntry]{}}
	w.admin, _ = w.node(t, false)
	tenant := must.Get(w.admin.CreateTenant(t.Context(), "Acme"))(t)
	w.acme = w.admin.Tenant(tenant.ID)
	return w
}

// databases returns the address of a new database of each kind.
var databases = map[string]func(*testing.T) string{
	"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "v.db") },
	"PostgreSQL": func(t *testing.T) string { return pgtest.URL(t) },
}

// opener returns a function that opens the database at an address.
func opener(address string) func(context.Context) (vault.Storage, error) {
	return func(ctx context.Context) (vault.Storage, error) {
		if filepath.IsAbs(address) {
			return sqlite.Open(ctx, address)
		}
		return postgres.Open(ctx, address)
	}
}

// memory returns a function that opens the same SQLite database each time.
func memory(t *testing.T) func(context.Context) (vault.Storage, error) {
	return opener(databases["SQLite"](t))
}

// onBoth runs a test on each backend.
func onBoth(t *testing.T, test func(*testing.T, *installation)) {
	t.Helper()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newInstallation(t, opener(database(t))))
		})
	}
}

// node opens the vault again. If sends is true it has a sink that starts with the
// oldest entry.
func (w *installation) node(t *testing.T, sends bool) (*vault.Vault, *failing) {
	t.Helper()
	var cfg vault.Config
	if sends {
		cfg.Sinks = []vault.Sink{{Name: "siem", Sender: w.dest, FromStart: true}}
	}
	f := &failing{Storage: must.Get(w.open(t.Context()))(t)}
	return w.nodeOn(t, f, cfg), f
}

// nodeWith opens the vault again with a configuration.
func (w *installation) nodeWith(t *testing.T, cfg vault.Config) *vault.Vault {
	t.Helper()
	return w.nodeOn(t, must.Get(w.open(t.Context()))(t), cfg)
}

func (w *installation) nodeOn(t *testing.T, store vault.Storage, cfg vault.Config) *vault.Vault {
	t.Helper()
	cfg.Now, cfg.SweepEvery, cfg.WorkEvery, cfg.Logger = w.clock.Now, -1, -1, slog.New(slog.NewJSONHandler(&w.logs, nil))
	v := must.Get(vault.Open(t.Context(), store, w.key, &cfg))(t)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// fill adds entries.
func (w *installation) fill(t *testing.T, n int) {
	t.Helper()
	rows := func(yield func(vault.TokenParams, error) bool) {
		for range n {
			if !yield(vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}, nil) {
				return
			}
		}
	}
	for r, err := range w.acme.Import(t.Context(), rows, nil) {
		if err != nil || r.Err != nil {
			t.Fatal(err, r.Err)
		}
	}
	visible(t, w.acme)
}

// visible waits until all entries of a tenant can be followed. PostgreSQL holds
// them back while an older transaction of any database is open.
func visible(t *testing.T, c *vault.Owner) {
	t.Helper()
	for {
		page := must.Get(c.ListLogs(t.Context(), vault.ListLogsParams{}))(t)
		if len(entries(t, c)) == page.Pagination.TotalItems {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (w *installation) entries(t *testing.T) []uuid.UUID { return entries(t, w.acme) }

// entries returns the ids of all entries of a tenant in commit order.
func entries(t *testing.T, c *vault.Owner) (ids []uuid.UUID) {
	t.Helper()
	cursor := vault.LogsSince(time.Unix(1, 0))
	for {
		batch := must.Get(c.NextLogs(t.Context(), cursor, 0))(t)
		if len(batch.Data) == 0 {
			return ids
		}
		for _, e := range batch.Data {
			ids = append(ids, e.ID)
		}
		cursor = batch.Cursor
	}
}

// check checks that the destination has every entry in order, with at most this
// many duplicates.
func (w *installation) check(t *testing.T, again int) {
	t.Helper()
	want := w.entries(t)
	w.dest.mu.Lock()
	defer w.dest.mu.Unlock()
	got := make([]uuid.UUID, len(w.dest.got))
	for i, e := range w.dest.got {
		got[i] = e.ID
	}
	if doubles := countDoubles(t, want, got); doubles > again {
		t.Errorf("%d entries came again, at most %d may", doubles, again)
	}
}

// countDoubles checks that all entries arrived in order, and counts the
// duplicates.
func countDoubles(t *testing.T, want, got []uuid.UUID) (doubles int) {
	t.Helper()
	place, next := map[uuid.UUID]int{}, 0
	for i, id := range want {
		place[id] = i
	}
	for _, id := range got {
		i, known := place[id]
		switch {
		case !known:
			t.Fatalf("an entry that is not in the log: %s", id)
		case i == next:
			next++
		case i < next:
			doubles++
		default:
			t.Fatalf("entry %d came after entry %d", i, next-1)
		}
	}
	must.Same(t, "entries", len(want), next)
	return doubles
}

// destination accepts batches unless a test makes it fail. It keeps their lines.
type destination[T any] struct {
	mu  sync.Mutex
	got []T
	// before is called before a batch is accepted. Its error becomes the result.
	before func(lines []T) error
}

func (d *destination[T]) Send(ctx context.Context, batch []byte, contentType string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if contentType != "application/x-ndjson" {
		return errors.New("another content type: " + contentType)
	}
	var lines []T
	for dec := json.NewDecoder(bytes.NewReader(batch)); dec.More(); {
		var line T
		if err := dec.Decode(&line); err != nil {
			return err
		}
		lines = append(lines, line)
	}
	if d.before != nil {
		if err := d.before(lines); err != nil {
			return err
		}
	}
	d.got = append(d.got, lines...)
	return ctx.Err()
}

// set sets the function that runs before a batch is accepted.
func (d *destination[T]) set(before func([]T) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = before
}

// fail makes the destination fail this many times, each time after it has accepted a
// share of the batch.
func (d *destination[T]) fail(times int, share float64) {
	d.set(func(lines []T) error {
		if times == 0 {
			return nil
		}
		times--
		d.got = append(d.got, lines[:int(share*float64(len(lines)))]...)
		return errKilled
	})
}

// failing is a storage that fails at a chosen write of a cursor.
type failing struct {
	vault.Storage
	at, n   atomic.Int64 // fails at this write; zero for never
	applied atomic.Bool  // the write takes effect nonetheless
}

var errKilled = errors.New("killed")

func (f *failing) Write(ctx context.Context, ch *storage.Change) error {
	cursor := len(ch.InsertRecords) > 0 && ch.InsertRecords[0].Kind == "sink_cursor" ||
		len(ch.UpdateRecords) > 0 && ch.UpdateRecords[0].Record.Kind == "sink_cursor"
	if !cursor || f.at.Load() == 0 || f.n.Add(1) < f.at.Load() {
		return f.Storage.Write(ctx, ch)
	}
	if f.applied.Load() {
		if err := f.Storage.Write(ctx, ch); err != nil {
			return err
		}
	}
	return errKilled
}

func TestSinkGetsEveryEntryInOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		w.fill(t, 1200)
		v, _ := w.node(t, true)
		must.Do(t, v.SendLogs(t.Context()))
		w.fill(t, 3)
		other := must.Get(v.CreateTenant(t.Context(), "Later"))(t)
		visible(t, v.Tenant(other.ID))
		must.Do(t, v.SendLogs(t.Context()))
		w.dest.mu.Lock()
		all := len(w.dest.got)
		w.dest.got = slices.DeleteFunc(w.dest.got, func(e vault.LogEntry) bool { return e.TenantID == other.ID && e.Message == "Tenant created" })
		if len(w.dest.got) != all-1 {
			t.Errorf("%d entries of a tenant that came later", all-len(w.dest.got))
		}
		w.dest.mu.Unlock()
		w.check(t, 0)
	})
}

// A node is killed at every step of its work: before or after it takes the lease,
// sends a batch, or moves the cursor. The next node continues when the lease has
// expired.
func TestSinkSurvivesKillsAtEveryStep(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		kills := 0
		for at := int64(1); at <= 4; at++ {
			for _, applied := range []bool{false, true} {
				w.fill(t, 700)
				v, f := w.node(t, true)
				f.applied.Store(applied)
				f.at.Store(at)
				_ = v.SendLogs(t.Context())
				_ = v.Close()
				kills++
				w.clock.Advance(20 * time.Second)
			}
		}
		for _, accepted := range []float64{0, 1} {
			w.fill(t, long.Rounds(700, 20_000))
			v, _ := w.node(t, true)
			w.dest.fail(1, accepted)
			_ = v.SendLogs(t.Context())
			_ = v.Close()
			kills++
			w.clock.Advance(20 * time.Second)
		}
		v, _ := w.node(t, true)
		must.Do(t, v.SendLogs(t.Context()))
		w.check(t, kills*batchSize)
	})
}

// While a node has the lease, no other node sends. After the lease has expired,
// another node sends.
func TestAnotherNodeTakesOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		w.fill(t, 10)
		first, _ := w.node(t, true)
		must.Do(t, first.SendLogs(t.Context()))
		must.Do(t, first.Close())
		w.fill(t, 10)
		second, _ := w.node(t, true)
		must.Do(t, second.SendLogs(t.Context()))
		w.dest.mu.Lock()
		early := len(w.dest.got)
		w.dest.mu.Unlock()
		if early > 12 {
			t.Errorf("%d entries came while the first node had the lease", early)
		}
		w.clock.Advance(29 * time.Second)
		must.Do(t, second.SendLogs(t.Context()))
		w.check(t, 0)
	})
}

// refusal is an error about the content of a batch.
type refusal struct{ error }

func (refusal) Refused() bool { return true }

// A batch with a refused entry is halved until the entry is alone. The entry is
// counted, logged by its id, and skipped.
func TestRefusedEntriesAreSkipped(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		w.fill(t, 600)
		all := w.entries(t)
		bad := map[uuid.UUID]bool{all[0]: true, all[77]: true, all[78]: true, all[550]: true}
		w.dest.before = func(entries []vault.LogEntry) error {
			for _, e := range entries {
				if bad[e.ID] {
					return refusal{errors.New("no")}
				}
			}
			return nil
		}
		v, _ := w.node(t, true)
		must.Do(t, v.SendLogs(t.Context()))
		must.Same(t, "entries", len(all)-len(bad), len(w.dest.got))
		for id := range bad {
			if !strings.Contains(w.logs.String(), id.String()) {
				t.Errorf("the entry %s is not in the program's log", id)
			}
		}
		status, err := w.admin.ListSinks(t.Context())
		if err != nil || len(status) != 1 || status[0].Refused != 4 || status[0].Sent != int64(len(all)-4) || status[0].Behind != 0 {
			t.Errorf("%+v, %v", status, err)
		}
		if h := v.SinkHealth()["siem"]; h.Refused != 4 || h.Sent != int64(len(all)-4) {
			t.Errorf("%+v", h)
		}
	})
}

func outOfReach([]vault.LogEntry) error { return errors.New("out of reach") }

// A destination that fails gets the same entries again, however long it takes.
func TestFailuresAreRetried(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		w.fill(t, 20)
		v, _ := w.node(t, true)
		w.dest.set(outOfReach)
		for range 3 {
			must.Match(t, "no error", v.SendLogs(t.Context()), must.Text("the log sink siem: out of reach"))
			w.clock.Advance(time.Hour)
		}
		health := v.SinkHealth()["siem"]
		if health.Failures < 3 || !strings.Contains(health.LastError, "out of reach") || health.Behind != len(w.entries(t)) || health.Oldest.IsZero() {
			t.Errorf("%+v", health)
		}
		status, err := w.admin.ListSinks(t.Context())
		if err != nil || status[0].Behind != len(w.entries(t)) || !status[0].LastSuccess.IsZero() {
			t.Errorf("%+v, %v", status, err)
		}
		w.dest.set(nil)
		must.Do(t, v.SendLogs(t.Context()))
		w.check(t, 0)
	})
}

// Retention waits for a sink that is behind, up to the grace period.
func TestRetentionWaitsForSinks(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, memory(t))
	w.dest.set(outOfReach)
	v := w.nodeWith(t, vault.Config{LogRetention: 24 * time.Hour, Sinks: []vault.Sink{{Name: "siem", Sender: w.dest, FromStart: true}}})
	w.fill(t, 10)
	for _, step := range []struct {
		advance time.Duration
		deleted bool
	}{{48 * time.Hour, false}, {5 * 24 * time.Hour, false}, {2 * 24 * time.Hour, true}} {
		w.clock.Advance(step.advance)
		swept, err := v.Sweep(t.Context())
		if err != nil || (swept.Logs > 0) != step.deleted {
			t.Errorf("after %s more, %d entries are deleted: %v", step.advance, swept.Logs, err)
		}
	}
	if !strings.Contains(w.logs.String(), "SinkGrace") {
		t.Error("no alarm")
	}
	w.dest.set(nil)
	w.fill(t, 10)
	must.Do(t, v.SendLogs(t.Context()))
	w.clock.Advance(25 * time.Hour)
	if swept, err := v.Sweep(t.Context()); err != nil || swept.Logs == 0 {
		t.Errorf("what was sent is kept: %+v, %v", swept, err)
	}
}

func TestResetAndSkip(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, memory(t))
	w.fill(t, 10)
	v, _ := w.node(t, true)
	must.Do(t, v.SendLogs(t.Context()))
	all := len(w.dest.got)
	must.Do(t, w.admin.ResetSink(t.Context(), "siem", time.Time{}))
	must.Same(t, "after the reset", all, must.Get(w.admin.ListSinks(t.Context()))(t)[0].Behind)
	for range 2 { // the first round notices that the cursor was moved
		_ = v.SendLogs(t.Context())
	}
	w.fill(t, 1)
	_ = v.SendLogs(t.Context())
	_ = v.SendLogs(t.Context())
	if len(w.dest.got) < 2*all {
		t.Errorf("%d entries came, want at least %d", len(w.dest.got), 2*all)
	}
	w.dest.set(outOfReach)
	w.fill(t, 10)
	must.Do(t, w.admin.SkipSink(t.Context(), "siem"))
	must.Same(t, "after the skip", 0, must.Get(w.admin.ListSinks(t.Context()))(t)[0].Behind)
	for _, err := range []error{w.admin.SkipSink(t.Context(), "other"), w.admin.ResetSink(t.Context(), "other", time.Time{})} {
		must.Match(t, "another sink", err, vault.ErrNotFound)
	}
}

// A new sink begins with the entries from now on.
func TestNewSinkBeginsNow(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, memory(t))
	w.fill(t, 10)
	w.clock.Advance(time.Second)
	v := w.nodeWith(t, vault.Config{Sinks: []vault.Sink{{Name: "siem", Sender: w.dest}}})
	w.clock.Advance(time.Second)
	w.fill(t, 2)
	must.Do(t, v.SendLogs(t.Context()))
	must.Same(t, "entries came", 2, len(w.dest.got))
}

// The vault sends in the background, and a hanging destination does not delay
// Close.
func TestSinksRunInTheBackground(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, memory(t))
	got := make(chan int, 100)
	w.dest.set(func(entries []vault.LogEntry) error {
		got <- len(entries)
		return nil
	})
	v, _ := w.node(t, true)
	if n := <-got; n == 0 {
		t.Error("an empty batch")
	}
	w.fill(t, 1)
	<-got
	must.Do(t, v.Close())
	must.Match(t, "after Close", v.SendLogs(t.Context()), vault.ErrClosed)
}

func TestBadSinksAreRefused(t *testing.T) {
	t.Parallel()
	good := vault.LogWriter(&bytes.Buffer{})
	for name, sinks := range map[string][]vault.Sink{
		"no name":        {{Sender: good}},
		"a bad name":     {{Name: "a b", Sender: good}},
		"a long name":    {{Name: strings.Repeat("x", 65), Sender: good}},
		"no sender":      {{Name: "a"}},
		"a bad format":   {{Name: "a", Sender: good, Format: "cef"}},
		"a name twice":   {{Name: "a", Sender: good}, {Name: "a", Sender: good}},
		"no URL":         {{Name: "a", Sender: vault.LogHTTP("nonsense", nil)}},
		"plain http":     {{Name: "a", Sender: vault.LogHTTP("http://siem.example.com/x?token=secret-token", nil)}},
		"a bad secret":   {{Name: "a", Sender: vault.LogHTTP("https://siem.example.com", &vault.LogHTTPOptions{Secret: "x"})}},
		"a folder":       {{Name: "a", Sender: vault.LogFile(t.TempDir())}},
		"a nil writer":   {{Name: "a", Sender: vault.LogWriter(nil)}},
		"another scheme": {{Name: "a", Sender: vault.LogHTTP("ftp://siem.example.com", nil)}},
	} {
		store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
		v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{Sinks: sinks})
		if err == nil {
			t.Errorf("%s is not refused", name)
			_ = v.Close()
		} else if strings.Contains(err.Error(), "secret-token") {
			t.Errorf("%s: the error holds the URL", name)
		}
	}
}

// All logs can be followed with one cursor.
func TestFollowAllLogs(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	other, owner := v.NewTenant(t, "Other")
	seen, cursor := map[string]int{}, vault.LogsSince(time.Unix(1, 0))
	read := func(want int) {
		n := 0
		for batch, err := range v.FollowLogs(t.Context(), cursor) {
			must.Do(t, err)
			for _, e := range batch.Data {
				seen[fmt.Sprint(e.TenantID, e.ID)]++
			}
			cursor = batch.Cursor
			if n += len(batch.Data); n >= want {
				return
			}
		}
	}
	read(5) // two tenants and three applications
	for _, c := range []*vault.Owner{v.Owner, owner} {
		must.Get(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
	}
	read(2)
	must.Same(t, "entries", 7, len(seen))
	for id, n := range seen {
		must.Same(t, id+" came", 1, n)
	}
	if !strings.Contains(fmt.Sprint(seen), other.ID.String()) {
		t.Error("no entry of the other tenant")
	}
	for _, bad := range []string{"nonsense", "since:never", "e30"} {
		for _, err := range v.FollowLogs(t.Context(), bad) {
			must.Match(t, bad, err, vault.ErrInvalid)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range v.FollowLogs(ctx, "") {
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
