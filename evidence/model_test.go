package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const testOrigin = "vault.example/log"

// signer returns a key that is the same in every run.
func signer(t testing.TB, seed byte) (note.Signer, string) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)), testOrigin)
	must.Do(t, err)
	s := must.Get(note.NewSigner(skey))(t)
	return s, vkey
}

// tree is a simple tree: all hashes, as tlog stores them.
type tree struct {
	hashes []Hash
	size   int64
}

func (tr *tree) ReadHashes(indexes []int64) ([]Hash, error) {
	out := make([]Hash, len(indexes))
	for i, n := range indexes {
		out[i] = tr.hashes[n]
	}
	return out, nil
}

func (tr *tree) add(leaf Hash) {
	more, err := tlog.StoredHashesForRecordHash(tr.size, leaf, tr)
	if err != nil {
		panic(err)
	}
	tr.hashes = append(tr.hashes, more...)
	tr.size++
}

func (tr *tree) root(size int64) Hash {
	h, err := tlog.TreeHash(size, tr)
	if err != nil {
		panic(err)
	}
	return h
}

func (tr *tree) prove(size, n int64) []Hash {
	p, err := tlog.ProveRecord(size, n, tr)
	if err != nil {
		panic(err)
	}
	return append([]Hash{}, p...)
}

func (tr *tree) cover(from, to int64) []Hash {
	var all []Hash
	for _, s := range merkle.Cover(from, to) {
		all = append(all, tr.hashes[tlog.StoredHashIndex(s.Level, s.N)])
	}
	return all
}

// modelVault is a vault in memory with one tenant.
type modelVault struct {
	t      testing.TB
	signer note.Signer
	vkey   string
	origin string
	tenant uuid.UUID
	now    time.Time

	vault  tree
	bodies []string
	log    tree
	leaves []Leaf
	heads  []int64 // indexes of the heads
	sizes  []int64 // sizes of the vault's tree at checkpoints
	events []int64 // indexes of events in a bundle
	pruned int64
}

func newModelVault(t testing.TB) *modelVault {
	w := &modelVault{
		t: t, origin: testOrigin, tenant: uuid.MustParse("01900000-0000-7000-8000-00000000000a"),
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	w.signer, w.vkey = signer(t, 1)
	w.note(Event{Kind: EventStarted, Origin: testOrigin}, true)
	w.note(Event{Kind: EventBegun, Tenant: w.tenant, Import: true}, true)
	return w
}

// id returns an id with the vault's time.
func (w *modelVault) id(n int64) (id uuid.UUID) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(w.now.UnixMilli()))
	copy(id[:6], ms[2:])
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	id[6], id[8] = 0x70, 0x80
	return id
}

// note appends an event and returns its index.
func (w *modelVault) note(e Event, show bool) int64 {
	w.now = w.now.Add(time.Second)
	e.Time = w.now
	if e.Kind == EventHead && len(w.heads) > 0 {
		e.Prev = w.heads[len(w.heads)-1] + 1
	}
	body := e.Body()
	w.vault.add(tlog.RecordHash(body))
	w.bodies = append(w.bodies, string(body))
	if show {
		w.events = append(w.events, w.vault.size-1)
	}
	return w.vault.size - 1
}

// enter appends an entry to the log.
func (w *modelVault) enter(kind Kind) {
	w.now = w.now.Add(time.Minute)
	n := w.log.size
	e := Entry{
		ID: w.id(n), CreatedAt: w.now.Add(time.Duration(n) * time.Microsecond), ActorType: "user",
		ActorName: fmt.Sprintf("Jane <%d> \u2028 & \"Co\"", n), EntityType: "token", EntityID: fmt.Sprint(n),
		Operation: "create", Message: "Token created", Origin: "192.0.2.7",
	}
	if n%2 == 1 {
		e.ActorID, e.ActorName, e.ActorType = w.id(n+1000), "", "application"
	}
	sum := sha256.Sum256(e.ID[:])
	l := Leaf{N: n, Kind: kind, ID: e.ID, Mac: sum[:16], Entry: &e}
	l.C = e.Commit(w.tenant, Mac(l.Mac))
	w.leaves = append(w.leaves, l)
	w.log.add(LeafHash(kind, l.ID, l.C))
}

// checkpoint appends a head of the log and returns a signed note.
func (w *modelVault) checkpoint() []byte {
	head := w.note(Event{Kind: EventHead, Tenant: w.tenant, Size: w.log.size, Root: w.log.root(w.log.size)}, false)
	w.heads = append(w.heads, head)
	w.sizes = append(w.sizes, w.vault.size)
	return w.sign(&Checkpoint{w.origin, w.vault.size, w.vault.root(w.vault.size)})
}

func (w *modelVault) tenantNote() []byte {
	return w.sign(&Checkpoint{TenantOrigin(w.origin, w.tenant), w.log.size, w.log.root(w.log.size)})
}

func (w *modelVault) sign(c *Checkpoint) []byte {
	return must.Get(c.Sign(w.signer))(w.t)
}

func (w *modelVault) proven(index int64) Proven {
	return Proven{w.bodies[index], index, w.vault.prove(w.vault.size, index)}
}

// bundle exports the log.
func (w *modelVault) bundle() []byte {
	msg := w.checkpoint()
	var b bytes.Buffer
	out := NewWriter(&b)
	check := func(err error) {
		must.Do(w.t, err)
	}
	check(out.Header(&Header{w.tenant, msg, len(w.events)}))
	for _, index := range w.events {
		check(out.Event(w.proven(index)))
	}
	leaf, at := w.pruned, int64(0)
	grow := func(to int64) {
		for _, size := range append(w.sizes, to) {
			if size > at && size <= to {
				check(out.Grow(size, w.vault.cover(at, size)))
				at = size
			}
		}
	}
	if w.pruned > 0 {
		check(out.Pruned(w.pruned, w.log.cover(0, w.pruned)))
	}
	for _, index := range w.heads {
		e, err := ParseEvent([]byte(w.bodies[index]))
		check(err)
		for ; leaf < e.Size; leaf++ {
			check(out.Leaf(&w.leaves[leaf]))
		}
		grow(index)
		check(out.Head(index, []byte(w.bodies[index])))
		at = index + 1
	}
	grow(w.vault.size)
	return b.Bytes()
}

func (w *modelVault) proof(n int64) []byte {
	msg := w.checkpoint()
	p := Proof{
		Index: n, Hashes: w.log.prove(w.log.size, n), Note: w.tenantNote(),
		Leaf: w.leaves[n], Head: w.proven(w.heads[len(w.heads)-1]), HeadNote: msg,
	}
	return p.Text()
}

// erase removes the person from an entry.
func (w *modelVault) erase(n int64) {
	l := &w.leaves[n]
	left := l.Entry.redacted()
	index := w.note(Event{Kind: EventErased, Tenant: w.tenant, Entry: l.ID, After: left.Commit(w.tenant, Mac{})}, false)
	w.checkpoint()
	l.Mac, l.Entry = nil, &left
	l.Erased = &Proven{Body: w.bodies[index], Index: index}
}

// proveErased updates the proofs of erased entries to the size of the next
// bundle.
func (w *modelVault) proveErased() {
	size := w.vault.size + 1 // the next bundle appends a head
	copyOf := tree{append([]Hash{}, w.vault.hashes...), w.vault.size}
	e := Event{
		Kind: EventHead, Time: w.now.Add(time.Second), Tenant: w.tenant, Size: w.log.size, Root: w.log.root(w.log.size),
		Prev: w.heads[len(w.heads)-1] + 1,
	}
	copyOf.add(tlog.RecordHash(e.Body()))
	for i := range w.leaves {
		if p := w.leaves[i].Erased; p != nil {
			p.Proof = copyOf.prove(size, p.Index)
		}
	}
}

// full returns a vault with every case that a bundle can have.
func full(t testing.TB) *modelVault {
	w := newModelVault(t)
	for range 3 {
		w.enter(KindImported)
	}
	w.enter(KindEntry)
	w.checkpoint()
	w.note(Event{Kind: EventImported, Tenant: w.tenant, Count: 3}, true)
	w.note(Event{Kind: EventLost, Tenant: w.tenant, Entries: []uuid.UUID{w.id(77)}}, true)
	for range 5 {
		w.enter(KindEntry)
	}
	w.enter(KindVault)
	w.note(Event{Kind: EventPruned, Tenant: w.tenant, Below: 2, Cutoff: Millis(w.leaves[5].ID)}, true)
	w.pruned = 2
	w.leaves[2].Mac, w.leaves[2].Entry = nil, nil
	w.leaves[4].Mac, w.leaves[4].Entry = nil, nil
	w.erase(6)
	w.proveErased()
	return w
}
