package sentences

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var update = flag.Bool("update", false, "write testdata/sentences.txt")

const (
	golden = "testdata/sentences.txt"
	howTo  = "go test ./internal/test/sentences -update"
	header = "Every sentence that a user can see, by folder. Written by " + howTo + ".\n" +
		"… stands for text that is put in; %s, %d and so on are verbs of fmt.\n"
)

// TestSentences compares the list with the code. The diff of the list shows
// new and removed sentences, so that a reviewer can read them next to the
// others.
func TestSentences(t *testing.T) {
	t.Parallel()
	got := render(collect(t))
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	before, after := lines(string(want)), lines(got)
	for _, s := range slices.Sorted(maps.Keys(after)) {
		if !before[s] {
			t.Errorf("new: %s", s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(before)) {
		if !after[s] {
			t.Errorf("removed: %s", s)
		}
	}
	if t.Failed() || string(want) != got {
		t.Errorf("%s differs from the code; update it with %s, and read the diff", golden, howTo)
	}
}

func render(all table) string {
	var b strings.Builder
	b.WriteString(header)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "\n## %s\n", folder)
		for _, s := range slices.Sorted(maps.Keys(all[folder])) {
			fmt.Fprintln(&b, s)
		}
	}
	return b.String()
}

// lines returns the sentences of a list, each with its folder.
func lines(list string) map[string]bool {
	all, folder := map[string]bool{}, ""
	for s := range strings.Lines(strings.TrimPrefix(list, header)) {
		s = strings.TrimSuffix(s, "\n")
		if name, ok := strings.CutPrefix(s, "## "); ok {
			folder = name
		} else if s != "" {
			all[folder+": "+s] = true
		}
	}
	return all
}
