package seal

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func newTestRing(t testing.TB) *Ring {
	t.Helper()
	return must.Get(NewRing(time.Now()))(t)
}

func testLocation() Location {
	return Location{Tenant: [16]byte{1}, Entity: "token", ID: "tok", Field: "body", Bound: []string{"card", "/pci/high/"}}
}

func TestSealedBytesOpenOnlyInTheirPlace(t *testing.T) {
	t.Parallel()
	r := newTestRing(t)
	home := testLocation()
	sealed := must.Get(r.Seal(&home, []byte("4242424242424242")))(t)
	if bytes.Contains(sealed, []byte("4242")) {
		t.Fatal("plaintext in sealed bytes")
	}
	got, err := r.Open(&home, 1, sealed)
	if err != nil || string(got) != "4242424242424242" {
		t.Fatalf("Open = %q, %v", got, err)
	}
	moves := map[string]func(*Location){
		"tenant":          func(p *Location) { p.Tenant[0]++ },
		"entity":          func(p *Location) { p.Entity = "session" },
		"id":              func(p *Location) { p.ID = "other" },
		"field":           func(p *Location) { p.Field = "cvc" },
		"type":            func(p *Location) { p.Bound = []string{"token", "/pci/high/"} },
		"container":       func(p *Location) { p.Bound = []string{"card", "/pci/low/"} },
		"shifted parts":   func(p *Location) { p.ID, p.Field = "tokb", "ody" },
		"one part fewer":  func(p *Location) { p.Bound = p.Bound[:1] },
		"joined together": func(p *Location) { p.Bound = []string{"card/pci/high/"} },
	}
	for name, move := range moves {
		p := testLocation()
		move(&p)
		must.Fail(r.Open(&p, 1, sealed))(t, name+" changed", ErrOpen)
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := r.Open(&home, 1, bad); !errors.Is(err, ErrOpen) {
			t.Fatalf("byte %d flipped: Open error = %v, want ErrOpen", i, err)
		}
	}
}

func TestRingLife(t *testing.T) {
	t.Parallel()
	r1 := newTestRing(t)
	p := testLocation()
	old, _ := r1.Seal(&p, []byte("old"))

	pending := must.Get(r1.Add(time.Now()))(t)
	if v, s := pending.Newest(); v != 2 || s != Pending || pending.Version() != 1 {
		t.Fatalf("after Add: newest %d %s, seals with %d", v, s, pending.Version())
	}
	promoted := must.Get(pending.Promote())(t)
	if promoted.Version() != 2 || !promoted.Retired() {
		t.Fatalf("after Promote: seals with %d, retired %v", promoted.Version(), promoted.Retired())
	}
	if got, err := promoted.Open(&p, 1, old); err != nil || string(got) != "old" {
		t.Fatalf("a retired key must open: %q, %v", got, err)
	}
	fresh, _ := promoted.Seal(&p, []byte("new"))
	if got, err := pending.Open(&p, 2, fresh); err != nil || string(got) != "new" {
		t.Fatalf("a node that knows the key as pending must open: %q, %v", got, err)
	}
	if _, err := r1.Open(&p, 2, fresh); !errors.Is(err, ErrNoKey) {
		t.Fatalf("unknown version: %v, want ErrNoKey", err)
	}
	if _, err := promoted.Open(&p, 1, fresh); !errors.Is(err, ErrOpen) {
		t.Fatalf("version is bound: %v, want ErrOpen", err)
	}
	destroyed := must.Get(promoted.Destroy())(t)
	if _, err := destroyed.Open(&p, 1, old); !errors.Is(err, ErrNoKey) {
		t.Fatalf("destroyed: %v, want ErrNoKey", err)
	}
	if v, _ := destroyed.Newest(); v != 2 {
		t.Fatalf("newest = %d", v)
	}
	if r1.MAC("fp", "x") != destroyed.MAC("fp", "x") {
		t.Error("a rotation changed the fingerprints")
	}
}

func TestWrapBindsTenantAndMaster(t *testing.T) {
	t.Parallel()
	master, _ := NewAEAD(RandomKey())
	other, _ := NewAEAD(RandomKey())
	r := newTestRing(t)
	p := testLocation()
	sealed, _ := r.Seal(&p, []byte("v"))
	wrapped := must.Get(r.Wrap(master, p.Tenant))(t)
	back := must.Get(Unwrap(master, p.Tenant, wrapped))(t)
	if got, err := back.Open(&p, 1, sealed); err != nil || string(got) != "v" {
		t.Fatalf("Open after Unwrap = %q, %v", got, err)
	}
	must.Fail(Unwrap(other, p.Tenant, wrapped))(t, "another master key", ErrUnwrap)
	must.Fail(Unwrap(master, [16]byte{9}, wrapped))(t, "another tenant", ErrUnwrap)
}

func TestMACDistinguishesPartsAndLabels(t *testing.T) {
	t.Parallel()
	r, r2 := newTestRing(t), newTestRing(t)
	base := r.MAC("m", "ab", "c")
	for name, other := range map[string][32]byte{
		"label": r.MAC("i", "ab", "c"), "split": r.MAC("m", "a", "bc"), "joined": r.MAC("m", "abc"), "tenant": r2.MAC("m", "ab", "c"),
	} {
		if other == base {
			t.Errorf("%s does not change the hash", name)
		}
	}
	if r.MAC("m", "ab", "c") != base {
		t.Error("a hash must be the same each time")
	}
}

func TestHashName(t *testing.T) {
	t.Parallel()
	ring := newTestRing(t)
	long := strings.Repeat("x", 2000)
	for i := range 3000 {
		for _, name := range []string{"/pci/high/", strconv.Itoa(i), long} {
			if got, want := ring.HashName("label", name), ring.Hash("label", name); got != want {
				t.Fatalf("after %d names, HashName of one with %d bytes differs from Hash", i, len(name))
			}
		}
	}
	if ring.HashName("a", "name") == ring.HashName("b", "name") {
		t.Error("two labels have one hash")
	}
}
