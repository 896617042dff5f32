package evidence

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestProof(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	for range 9 {
		w.enter(KindEntry)
	}
	for n := range int64(9) {
		got := must.Get(OpenProof(w.proof(n), w.vkey))(t)
		e := w.leaves[n].Entry
		if got.Tenant != w.tenant || got.Index != n || got.ID != e.ID || got.Fields["entity_id"] != e.EntityID || got.Fields["actor_name"] != e.ActorName {
			t.Errorf("the proof of entry %d proves %v", n, got)
		}
	}
}

func TestProofOfAnErasedEntry(t *testing.T) {
	t.Parallel()
	w := full(t)
	w.leaves[6].Entry, w.leaves[6].Erased = nil, nil
	got, err := OpenProof(w.proof(6), w.vkey)
	if err != nil || got.Fields != nil || got.ID != w.leaves[6].ID {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestEveryByteOfAProofMatters(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	for range 5 {
		w.enter(KindEntry)
	}
	text := w.proof(3)
	for i := range text {
		bad := slices.Clone(text)
		bad[i] ^= 1
		must.Match(t, fmt.Sprintf("byte %d (%q) may become %q", i, text[i], bad[i]), VerifyProof(bad, w.vkey), must.Text("evidence: "))
		must.Match(t, fmt.Sprintf("a proof may end after %d bytes", i), VerifyProof(text[:i], w.vkey), must.Text("evidence: not a "))
	}
	must.Match(t, "an invalid key is accepted", VerifyProof(text, "no key"), must.Text("malformed verifier id"))
}

// TestProofWithAnotherHeadIsRefused combines parts of two genuine proofs.
func TestProofWithAnotherHeadIsRefused(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	w.enter(KindEntry)
	a, _ := parseProof(w.proof(0))
	w.enter(KindEntry)
	b, _ := parseProof(w.proof(0))
	key := must.Get(note.NewVerifier(w.vkey))(t)
	open := func(msg []byte) *Checkpoint {
		return must.Get(OpenCheckpoint(msg, key))(t)
	}
	if _, err := a.check(testOrigin, open(b.note), open([]byte(a.extra.Note))); err == nil {
		t.Error("a head of another size is accepted")
	}
	if _, err := a.check(testOrigin, open([]byte(a.extra.Note)), open([]byte(a.extra.Note))); err == nil {
		t.Error("the vault's tree passes for a tenant's")
	}
	must.Fail(a.check("other", open(a.note), open([]byte(a.extra.Note))))(t, "another origin is accepted", must.Text("its origin is not of this key"))
}

// TestIndependentLibraryAgrees checks roots, proofs and notes with an independent
// library.
func TestIndependentLibraryAgrees(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	for n := range int64(40) {
		w.enter(KindEntry)
		root := w.log.root(n + 1)
		for i := range n + 1 {
			leaf := LeafHash(w.leaves[i].Kind, w.leaves[i].ID, w.leaves[i].C)
			must.Do(t, proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(n+1), leaf[:], raw(w.log.prove(n+1, i)), root[:]))
		}
		for m := int64(1); m <= n; m++ {
			hashes := must.Get(tlog.ProveTree(n+1, m, &w.log))(t)
			old := w.log.root(m)
			must.Do(t, proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(m), uint64(n+1), raw(hashes), old[:], root[:]))
			must.Do(t, CheckConsistency(&Checkpoint{Size: m, Root: old}, &Checkpoint{Size: n + 1, Root: root}, hashes))
			old[0] ^= 1
			if err := CheckConsistency(&Checkpoint{Size: m, Root: old}, &Checkpoint{Size: n + 1, Root: root}, hashes); err == nil {
				t.Fatal("another root is accepted")
			}
		}
	}
}

func raw(hashes []Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	msg := w.checkpoint()
	key := must.Get(note.NewVerifier(w.vkey))(t)
	c := must.Get(OpenCheckpoint(msg, key))(t)
	must.Same(t, "the note", &Checkpoint{testOrigin, 3, w.vault.root(3)}, c)
	for i := range msg {
		bad := slices.Clone(msg)
		bad[i] ^= 1
		must.Fail(OpenCheckpoint(bad, key))(t, fmt.Sprintf("byte %d (%q) may become %q", i, msg[i], bad[i]), must.Text("evidence: "))
	}
	// The last character of a signature has two unused bits.
	i := bytes.LastIndexByte(msg, '=') - 1
	for _, last := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		bad := slices.Clone(msg)
		bad[i] = last
		if _, err := OpenCheckpoint(bad, key); err == nil && last != msg[i] {
			t.Errorf("%q may become %q", msg[i], last)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a b", "a+b", "a\nb", "\xff", strings.Repeat("x", 256), "a\u00a0b", "a\x00"} {
		if CheckOrigin(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for n := range 4 {
		origin := OriginAfter(testOrigin, n)
		if got, err := Restores(testOrigin, origin); err != nil || got != n || CheckOrigin(origin) != nil {
			t.Errorf("%s has %d restores, %v", origin, got, err)
		}
		id := uuid.New()
		if back, tenant := splitOrigin(TenantOrigin(origin, id)); back != origin || tenant != id {
			t.Errorf("%s splits into %s and %s", origin, back, tenant)
		}
	}
	for _, bad := range []string{"other", testOrigin + "/1", testOrigin + "/02", testOrigin + "/-3", testOrigin + "/x", testOrigin + "/"} {
		must.Fail(Restores(testOrigin, bad))(t, bad+" is accepted", must.Text("its origin is not of this key"))
	}
}
