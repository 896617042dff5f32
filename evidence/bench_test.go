package evidence

import (
	"bytes"
	"testing"
)

func BenchmarkVerify(b *testing.B) {
	w := newWorld(b)
	const entries = 10_000
	for range entries {
		w.enter(KindEntry)
	}
	bundle := w.bundle()
	b.SetBytes(int64(len(bundle)))
	for b.Loop() {
		r, err := Verify(bytes.NewReader(bundle), w.vkey, nil)
		if err != nil || !r.OK() {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}

func BenchmarkCommit(b *testing.B) {
	w := newWorld(b)
	w.enter(KindEntry)
	e := w.leaves[0].Entry
	b.ReportAllocs()
	for b.Loop() {
		e.Commit(w.tenant, Mac{})
	}
}
