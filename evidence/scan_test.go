package evidence

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// sameLeaf fails if scanLeaf accepts a line that decode refuses or reads otherwise.
func sameLeaf(t testing.TB, line []byte) (scanned bool) {
	t.Helper()
	var fast, slow leafLine
	if !scanLeaf(line, &fast) {
		return false
	}
	if !decode(line, &slow) || fast.N < 0 {
		t.Fatalf("only scanLeaf accepts %q", line)
	}
	must.Same(t, fmt.Sprintf("%q", line), slow, fast, cmp.AllowUnexported(leafLine{}))
	return true
}

// leafLines returns lines of every kind of leaf.
func leafLines(t testing.TB) (lines [][]byte) {
	t.Helper()
	w := full(t)
	w.proveErased()
	for line := range bytes.Lines(w.bundle()) {
		if bytes.HasPrefix(line, []byte(`{"n":`)) {
			lines = append(lines, bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	for _, name := range []string{"Zoë", "日本", "a\u2028b", "\x7f", "\ufffd", "\xff", "<&>", `"\`, "\U0001f600"} {
		e := w.leaves[0].Entry.text()
		e.ActorName = name
		lines = append(lines, encode(leafLine{leafBody: leafBody{Kind: KindEntry, Mac: make([]byte, 16), Entry: &e}}))
	}
	return lines
}

// TestScanLeaf changes and removes every byte of leaves, and inserts bytes.
func TestScanLeaf(t *testing.T) {
	t.Parallel()
	scanned := 0
	for _, line := range leafLines(t) {
		if !sameLeaf(t, line) {
			continue
		}
		scanned++
		for i := range line {
			for _, c := range []byte("\x00\"\\,0aF=}\xe2") {
				changed := bytes.Clone(line)
				changed[i] = c
				sameLeaf(t, changed)
				sameLeaf(t, bytes.Join([][]byte{line[:i], {c}, line[i:]}, nil))
			}
			sameLeaf(t, bytes.Join([][]byte{line[:i], line[i+1:]}, nil))
			sameLeaf(t, line[:i])
		}
	}
	if scanned == 0 {
		t.Error("no line was scanned")
	}
}

func FuzzScanLeaf(f *testing.F) {
	for _, line := range leafLines(f) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) { sameLeaf(t, line) })
}
