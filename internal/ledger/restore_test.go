package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// memory is an anchor in memory.
type memory struct {
	mu    sync.Mutex
	notes [][]byte
}

func (m *memory) Latest(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.notes) == 0 {
		return nil, nil
	}
	return m.notes[len(m.notes)-1], nil
}

func (m *memory) Put(_ context.Context, msg []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, msg)
	return nil
}

// backUp copies the database like a backup.
func (r *rig) backUp() string {
	r.Helper()
	path := filepath.Join(r.TempDir(), "backup.db")
	r.exec("VACUUM INTO ?", path)
	return path
}

// restore replaces the database with a backup.
func (r *rig) restore(path string) {
	r.Helper()
	must.Do(r, r.store.Close())
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(r.path, b, 0o600)
	}
	must.Do(r, err)
	_ = os.Remove(r.path + "-wal")
	_ = os.Remove(r.path + "-shm")
	r.store = nil
	r.reopen()
}

func (r *rig) close(l *Ledger) {
	r.Helper()
	must.Do(r, l.Close(r.Context()))
}

func TestRestore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	anchor := &memory{}
	r.anchors = []Anchor{anchor}
	l := r.open()
	tenant := r.id()
	kept := r.write(l, tenant, 300)
	before := r.checkpoint(l)
	backup := r.backUp()
	r.write(l, tenant, 20)
	ahead := r.checkpoint(l)
	r.close(l)
	r.restore(backup)

	l = r.open()
	r.write(l, tenant, 1)
	must.Match(t, "a note over a restored database", must.Err(l.Checkpoint(t.Context())), ErrSuspended)
	if l.Status().Suspended == "" || len(r.raised(AlarmRestore)) != 1 {
		t.Errorf("status %+v, alarms %v", l.Status(), r.all())
	}
	if report := r.verify(l); report.OK() || !slices.Contains(verdictsOf(report), evidence.Truncated) {
		t.Errorf("before AcceptRestore: %v", verdictsOf(report))
	}
	must.Fail(l.AcceptRestore(t.Context(), " "))(t, "a restore without a reason was accepted", must.Text("a restore needs a reason"))
	first := must.Get(l.AcceptRestore(t.Context(), "disk failure"))(t)
	if !strings.HasPrefix(string(first), origin+"/2\n") {
		t.Errorf("the first note is %q", first)
	}
	must.Match(t, "accepted again", must.Err(l.AcceptRestore(t.Context(), "again")), ErrNotSuspended)
	more := r.write(l, tenant, 5)
	for _, since := range [][]byte{before, first, ahead} {
		r.isGood(l, tenant, since)
	}
	must.Same(t, "leaves", len(kept)+1+len(more), len(r.leafIDs(tenant)))
	report := must.Get(l.Verify(t.Context(), VerifyOptions{Since: [][]byte{ahead}}))(t)
	must.Same(t, "verdicts since a note that was lost", []evidence.Verdict(nil), verdictsOf(report))
	if len(report.Restores) != 1 || report.Restores[0].Reason != "disk failure" {
		t.Errorf("restores %v", report.Restores)
	}
	r.close(l)
	l = r.open() // the anchor's old notes do not suspend it again
	r.write(l, tenant, 1)
	r.checkpoint(l)
	if l.Status().Suspended != "" {
		t.Error(l.Status().Suspended)
	}
}

// TestRestoreTwice restores the same backup twice, and a later one. No origin is used
// twice.
func TestRestoreTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.anchors = []Anchor{&memory{}}
	l := r.open()
	tenant := r.id()
	r.write(l, tenant, 3)
	notes := [][]byte{r.checkpoint(l)}
	backup := r.backUp()
	for n := range 3 {
		r.write(l, tenant, 2)
		notes = append(notes, r.checkpoint(l))
		r.close(l)
		r.restore(backup)
		l = r.open()
		must.Match(t, fmt.Sprintf("restore %d", n), must.Err(l.Checkpoint(t.Context())), ErrSuspended)
		msg, err := l.AcceptRestore(t.Context(), "again")
		if err != nil || !strings.HasPrefix(string(msg), fmt.Sprintf("%s/%d\n", origin, n+2)) {
			t.Fatalf("restore %d: %q, %v", n, msg, err)
		}
		notes = append(notes, msg)
		for _, since := range notes {
			r.isGood(l, tenant, since)
		}
		if n == 1 {
			backup = r.backUp() // with accepted restores
		}
	}
}

// TestRestoreUnderARunningNode restores a backup while a node runs without an
// anchor. The node itself remembers the newer state.
func TestRestoreUnderARunningNode(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 3)
	r.checkpoint(l)
	backup := r.backUp()
	r.write(l, tenant, 3)
	r.checkpoint(l)
	r.restore(backup)
	l.c.Store = r.store
	r.write(l, tenant, 1)
	must.Match(t, "a note", must.Err(l.Checkpoint(t.Context())), ErrSuspended)
	if len(r.raised(AlarmRestore)) == 0 {
		t.Error("no alarm")
	}
}

func TestCopyForStaging(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.ID = "production"
	l := r.open()
	tenant := r.id()
	logs := r.write(l, tenant, 300)
	r.checkpoint(l)
	r.server.ID = "staging"
	l = r.open()
	must.Match(t, "a note of the copy", must.Err(l.Checkpoint(t.Context())), ErrSuspended)
	must.Get(l.AcceptRestore(t.Context(), "staging"))(t)
	logs = append(logs, r.write(l, tenant, 2)...)
	r.isGood(l, tenant, nil, logs...)
}

func TestFork(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 3)
	r.checkpoint(l)
	other := newRig(t)
	fork := other.open()
	other.write(fork, other.id(), 1)
	r.anchors = []Anchor{&memory{notes: [][]byte{other.checkpoint(fork)}}}
	l = r.open()
	if _, err := l.Checkpoint(t.Context()); !errors.Is(err, ErrSuspended) || len(r.raised(AlarmForked)) != 1 {
		t.Errorf("%v, %v", r.all(), err)
	}
	report, err := l.Verify(t.Context(), VerifyOptions{Since: [][]byte{other.checkpoint(fork)}})
	if err != nil || !slices.Contains(verdictsOf(report), evidence.Forked) {
		t.Errorf("%v, %v", verdictsOf(report), err)
	}
}

// hanging is an anchor that does not respond.
type hanging struct{ stop chan struct{} }

func (h hanging) Latest(context.Context) ([]byte, error) {
	<-h.stop
	return nil, errors.New("stopped")
}

func (h hanging) Put(context.Context, []byte) error {
	<-h.stop
	return errors.New("stopped")
}

// TestHangingAnchor signs several notes although an anchor hangs.
func TestHangingAnchor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h, good := hanging{make(chan struct{})}, &memory{}
	r.anchors = []Anchor{h, good}
	l := must.Get(Open(t.Context(), r.config(r.store)))(t)
	tenant := r.id()
	for range 5 {
		r.write(l, tenant, 1)
		r.checkpoint(l)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must.Match(t, "Close returned no error for a hanging anchor", l.Close(ended), must.Text("an anchor does not respond"))
	close(h.stop)
	must.Do(t, l.Close(context.Background()))
}

// A note that another process has signed reaches the anchors of this node, although
// the tree has not grown since.
func TestNotesOfAnotherProcessReachTheAnchors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool := r.open()
	anchor := &memory{}
	r.anchors = []Anchor{anchor}
	server := r.open()
	r.write(tool, r.id(), 3)
	msg := must.Get(tool.Round(t.Context()))(t)
	must.Get(server.Round(t.Context()))(t)
	must.Do(t, server.anchors[0].drain(t.Context()))
	if last, _ := anchor.Latest(t.Context()); !bytes.Equal(last, msg) {
		t.Errorf("the anchor has %q", last)
	}
}

func TestKeyChange(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 3)
	first := r.checkpoint(l)
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{9}, 64)), origin)
	must.Do(t, err)
	signer := must.Get(note.NewSigner(skey))(t)
	key := must.Get(note.NewVerifier(vkey))(t)
	c := r.config(r.store)
	c.Signers, c.Keys = []note.Signer{signer, r.signer}, []note.Verifier{key, r.key}
	l = must.Get(Open(t.Context(), c))(t)
	must.Do(t, l.Record(t.Context(), evidence.Event{Kind: evidence.EventKeyChanged, Keys: []string{r.vkey, vkey}}))
	r.isGood(l, tenant, first) // with the old key
	r.vkey = vkey
	r.isGood(l, tenant, first) // and with the new key
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const name, key = "evidence: an origin has 1 to 255 bytes", "evidence: a signer and its key are required"
	for what, is := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no name":      {func(c *Config) { c.Name = "" }, name},
		"a bad name":   {func(c *Config) { c.Name = "a b" }, name},
		"another name": {func(c *Config) { c.Name = "other" }, `and the origin "other"`},
		"no signer":    {func(c *Config) { c.Signers = nil }, key},
		"no key":       {func(c *Config) { c.Keys = nil }, key},
	} {
		c := r.config(r.store)
		is.change(&c)
		must.Fail(Open(t.Context(), c))(t, what+": no error", must.Text(is.want))
	}
}

// TestRun starts and stops the loop.
func TestRun(t *testing.T) {
	t.Parallel()
	r, l, tenant := begun(t)
	r.write(l, tenant, 3)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx, Schedule{Sequence: time.Millisecond, Checkpoint: 2 * time.Millisecond, Verify: 3 * time.Millisecond}, func(err error) { t.Error(err) })
	}()
	for s := l.Status(); s.Verified.IsZero() || s.Note == nil; s = l.Status() {
		<-time.After(time.Millisecond)
	}
	stop()
	<-done
	if s := l.Status(); !s.VerifiedOK || s.Pending != 0 {
		t.Errorf("status %+v", s)
	}
}
