package ledger

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const origin = "vault.example/log"

// database is a storage with tree storage.
type database interface {
	storage.Storage
	storage.TreeStorage
}

// rig is a database, a clock and a signing key for a test.
type rig struct {
	*testing.T
	path    string // a file for SQLite, a URL for PostgreSQL
	pg      bool
	store   database
	signer  note.Signer
	vkey    string
	key     note.Verifier
	anchors []Anchor
	server  storage.Instance

	mu     sync.Mutex
	now    time.Time
	last   uint64
	alarms []Alarm
	nodes  []*Ledger
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOn(t, filepath.Join(t.TempDir(), "vault.db"), false)
}

// begun returns a rig with a ledger, and the id of a tenant.
func begun(t *testing.T) (*rig, *Ledger, uuid.UUID) {
	t.Helper()
	r := newRig(t)
	return r, r.open(), r.id()
}

func newRigOn(t *testing.T, path string, pg bool) *rig {
	t.Helper()
	r := &rig{T: t, path: path, pg: pg, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)), origin)
	must.Do(t, err)
	r.signer = must.Get(note.NewSigner(skey))(t)
	r.key = must.Get(note.NewVerifier(vkey))(t)
	r.vkey = vkey
	r.reopen()
	t.Cleanup(func() {
		must.Match(t, "Close", r.store.Close(), nil)
	})
	return r
}

// reopen opens the database, and closes it first if it is open.
func (r *rig) reopen() {
	r.Helper()
	if r.store != nil {
		must.Do(r, r.store.Close())
	}
	var err error
	if r.pg {
		r.store, err = postgres.Open(r.Context(), r.path)
	} else {
		r.store, err = sqlite.Open(r.Context(), r.path)
	}
	must.Do(r, err)
}

// db opens the database like another program.
func (r *rig) db() *sql.DB {
	r.Helper()
	var db *sql.DB
	var err error
	if r.pg {
		db, err = sql.Open("postgres", r.path)
	} else {
		db, err = r.store.(*sqlite.Store).OpenDB()
	}
	must.Do(r, err)
	return db
}

// sql returns a statement with the placeholders of the database.
func (r *rig) sql(text string) string {
	for n := 1; r.pg && strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", "$"+strconv.Itoa(n), 1)
	}
	return text
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(time.Millisecond)
	return r.now
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// id returns a UUIDv7 for the rig's current time.
func (r *rig) id() (id uuid.UUID) {
	at := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	binary.BigEndian.PutUint64(id[8:], r.last)
	id[6], id[8] = 0x70, 0x80
	return id
}

// all returns the alarms of all nodes.
func (r *rig) all() []Alarm {
	r.Helper()
	for _, l := range r.nodes {
		must.Do(r, l.alarms.Finish(r.Context()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.alarms)
}

// raised returns the alarms of a kind.
func (r *rig) raised(kind AlarmKind) []Alarm {
	r.Helper()
	return slices.DeleteFunc(r.all(), func(a Alarm) bool { return a.Kind != kind })
}

func macOf(tenant uuid.UUID, data []byte) (mac evidence.Mac) {
	h := hmac.New(sha256.New, tenant[:])
	h.Write(data)
	copy(mac[:], h.Sum(nil))
	return mac
}

func (r *rig) config(store Store) Config {
	return Config{
		Store: store, Name: origin, Signers: []note.Signer{r.signer}, Keys: []note.Verifier{r.key},
		Mac: func(_ context.Context, tenant uuid.UUID, data []byte) (evidence.Mac, error) {
			return macOf(tenant, data), nil
		},
		Tenants: func(ctx context.Context, after uuid.UUID, limit int) ([]uuid.UUID, error) {
			ids, err := r.store.LogTenants(ctx, r.clock().Add(1000*time.Hour), storage.ID(after), limit)
			all := make([]uuid.UUID, len(ids))
			for i := range ids {
				all[i] = uuid.UUID(ids[i])
			}
			return all, err
		},
		Instance: func(context.Context) (storage.Instance, error) { return r.server, nil },
		Anchors:  r.anchors,
		Alarm: func(a Alarm) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.alarms = append(r.alarms, a)
		},
		Now: r.clock,
	}
}

// open opens a ledger on the database.
func (r *rig) open() *Ledger {
	r.Helper()
	return r.openOn(r.store)
}

// openOn opens a ledger on a store.
func (r *rig) openOn(store Store) *Ledger {
	r.Helper()
	l := must.Get(Open(r.Context(), r.config(store)))(r)
	l.SetPace(0)
	r.nodes = append(r.nodes, l)
	r.Cleanup(func() {
		must.Match(r, "Close", l.Close(context.Background()), nil)
	})
	return l
}

// logs returns new entries with their MACs.
func (r *rig) logs(tenant uuid.UUID, n int) []storage.Log {
	all := make([]storage.Log, n)
	for i := range all {
		at := r.clock()
		id := r.id()
		all[i] = storage.Log{
			ID: storage.ID(id), ActorType: "user", ActorName: fmt.Sprint("user ", id[15]), EntityType: "token", EntityID: id.String(),
			Operation: "create", Message: "Token created", Origin: "192.0.2.1", CreatedAt: at,
		}
		e := EntryOf(&all[i])
		all[i].Mac = storage.Hash(macOf(tenant, e.AppendMacFields(nil)))
	}
	return all
}

func expected(tenant uuid.UUID, logs []storage.Log) []Expected {
	all := make([]Expected, len(logs))
	for i := range logs {
		e := EntryOf(&logs[i])
		all[i] = Expected{ID: e.ID, Commit: e.Commit(tenant, evidence.Mac(logs[i].Mac))}
	}
	return all
}

// write writes entries like a vault, with or without a ledger.
func (r *rig) write(l *Ledger, tenant uuid.UUID, n int) []storage.Log {
	r.Helper()
	logs := r.logs(tenant, n)
	r.put(l, tenant, logs)
	return logs
}

func (r *rig) put(l *Ledger, tenant uuid.UUID, logs []storage.Log) {
	r.Helper()
	want := expected(tenant, logs)
	if l != nil {
		l.Expect(tenant, want...)
	}
	must.Do(r, r.store.Write(r.Context(), &storage.Change{Tenant: storage.ID(tenant), Logs: logs}))
	if l != nil {
		l.Written(tenant, want...)
	}
}

// maxRounds limits how often settle looks again on PostgreSQL. Only short
// transactions of this package use the server.
const maxRounds = 6000

// settle sequences a tenant until its tree has this size. On PostgreSQL,
// transactions of other tests may hold entries back.
func (r *rig) settle(l *Ledger, tenant uuid.UUID, size int64) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for attempt := 0; ; attempt++ {
		must.Get(l.Round(r.Context()))(r)
		tree, err := l.tree(r.Context(), tenant)
		if err != nil || tree.Size > size || !r.pg && attempt > 3 || attempt > maxRounds {
			r.Fatalf("after %d rounds the tree has %d leaves, want %d: %v", attempt, tree.Size, size, err)
		}
		if tree.Size == size {
			return
		}
		<-tick.C
	}
}

// checkpoint signs and returns a note.
func (r *rig) checkpoint(l *Ledger) []byte {
	r.Helper()
	msg := must.Get(l.Checkpoint(r.Context()))(r)
	return msg
}

// verify verifies the database in place.
func (r *rig) verify(l *Ledger) *evidence.Report {
	r.Helper()
	report := must.Get(l.Verify(r.Context(), VerifyOptions{}))(r)
	return report
}

// isGood checks a tenant's log in every way: in place, as a bundle, and leaf by
// leaf.
func (r *rig) isGood(l *Ledger, tenant uuid.UUID, since []byte, want ...storage.Log) {
	r.Helper()
	if report := r.verify(l); !report.OK() {
		r.Errorf("in place: %d findings, first %v", len(report.Findings), report.Findings[0])
	}
	var bundle bytes.Buffer
	must.Do(r, l.Export(r.Context(), tenant, &bundle))
	report, err := evidence.Verify(bytes.NewReader(bundle.Bytes()), r.vkey, since)
	if err != nil || !report.OK() {
		r.Fatalf("bundle: %v, %v", verdictsOf(report), err)
	}
	ids := r.leafIDs(tenant)
	if report.Entries != int64(len(ids)) {
		r.Errorf("the bundle has %d entries, the tree %d", report.Entries, len(ids))
	}
	for _, l := range want {
		n := 0
		for _, id := range ids {
			if id == l.ID {
				n++
			}
		}
		must.Same(r, fmt.Sprintf("places of entry %x in the tree", l.ID), 1, n)
	}
	if want != nil && len(ids) != len(want) {
		r.Errorf("the tree has %d leaves, want %d", len(ids), len(want))
	}
}

func (r *rig) leafIDs(tenant uuid.UUID) (ids []storage.ID) {
	r.Helper()
	part := must.Get(r.store.ReadTree(r.Context(), storage.TreeQuery{Tenant: storage.ID(tenant), To: 1 << 40}))(r)
	for _, b := range part.Leaves {
		if b.First%storage.LeavesPerBlock+int64(len(b.Refs)) > storage.LeavesPerBlock {
			r.Errorf("a batch of %d leaves at %d spans two blocks", len(b.Refs), b.First)
		}
		for _, ref := range b.Refs {
			ids = append(ids, ref.ID)
		}
	}
	return ids
}

func (r *rig) exec(query string, args ...any) {
	r.Helper()
	db := r.db()
	defer db.Close()
	if _, err := db.Exec(r.sql(query), args...); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
}

func verdictsOf(report *evidence.Report) []evidence.Verdict {
	var all []evidence.Verdict
	if report == nil {
		return nil
	}
	for _, f := range report.Findings {
		all = append(all, f.Verdict)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// finds reports whether a report has a finding, whatever it says about the entry.
func finds(report *evidence.Report, want evidence.Finding) bool {
	return slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool {
		f.Entry = nil
		return f == want
	})
}

// tapped is a store whose calls a test can count, delay and fail. Its functions get
// the query or the change of a call.
type tapped struct {
	database
	before func(ctx context.Context, query any) error // fails the call
	after  func(query, result any) error              // fails a call that has had its effect
}

func (s *tapped) ReadTree(ctx context.Context, q storage.TreeQuery) (storage.TreePart, error) {
	return tap(ctx, s, q, s.database.ReadTree)
}

func (s *tapped) TreeEvents(ctx context.Context, q storage.EventQuery) ([]storage.TreeEvent, error) {
	return tap(ctx, s, q, s.database.TreeEvents)
}

func (s *tapped) Trees(ctx context.Context, f storage.TreeFilter) ([]storage.Tree, error) {
	return tap(ctx, s, f, s.database.Trees)
}

func (s *tapped) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	return tap(ctx, s, refs, func(ctx context.Context, refs []storage.LogRef) ([]storage.Log, error) {
		return s.database.LogsByRef(ctx, tenant, refs)
	})
}

func (s *tapped) WriteTree(ctx context.Context, c *storage.TreeChange) error {
	return must.Err(tap(ctx, s, c, func(ctx context.Context, c *storage.TreeChange) (bool, error) {
		return true, s.database.WriteTree(ctx, c)
	}))
}

func tap[Q, R any](ctx context.Context, s *tapped, q Q, call func(context.Context, Q) (R, error)) (r R, err error) {
	if s.before != nil {
		if err := s.before(ctx, q); err != nil {
			return r, err
		}
	}
	if r, err = call(ctx, q); err == nil && s.after != nil {
		err = s.after(q, r)
	}
	return r, err
}
