package bench

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// BenchmarkSeal compares a key ring with the AEAD inside it.
func BenchmarkSeal(b *testing.B) {
	ring := must.Get(seal.NewRing(time.Now()))(b)
	aead := must.Get(seal.NewAEAD(seal.RandomKey()))(b)
	plain, ad := make([]byte, 400), make([]byte, 100)
	id := uuid.NewString()
	ours := &contender{name: "ring", call: func() error {
		location := seal.Location{Entity: "token", ID: id, Field: "body", Bound: []string{"card", "/pci/high/", id[:16], ""}}
		_, err := ring.Seal(&location, plain)
		return err
	}}
	bare := &contender{name: "AEAD", call: func() error {
		_, err := aead.Encrypt(plain, ad)
		return err
	}}
	race(b, 1, ours, bare)
	rates := ours.perSecond() + ", " + bare.perSecond()
	extra := (1/ours.rate() - 1/bare.rate()) * float64(time.Second/time.Microsecond)
	report(b, figure{what: "sealing 400 bytes beyond the AEAD", metric: "us/seal", backend: "-", callers: "1",
		value: extra, unit: "us", goal: 3, atMost: true, rates: rates})
	report(b, figure{what: "sealing 400 bytes beyond the AEAD", metric: "allocs/seal", backend: "-", callers: "1",
		value: allocations(ours) - allocations(bare), unit: "allocations", goal: 6, atMost: true})
}

func allocations(c *contender) float64 {
	return testing.AllocsPerRun(1000, func() { _ = c.call() })
}
