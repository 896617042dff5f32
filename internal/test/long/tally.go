package long

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	state = flag.String("long.state", "", "folder with the counts of long runs, which continue there")
	goal  = flag.Int("long.goal", 0, "how far a long run goes, instead of its own number")
	lasts = flag.Duration("long.for", 0, "how long a long run goes, instead of its own time")
)

// Goal returns how far a long run goes: n, unless the flag -long.goal says otherwise.
func Goal(n int) int {
	if *goal > 0 {
		return *goal
	}
	return n
}

// Time returns how long a long run goes: d, unless the flag -long.for says otherwise.
func Time(d time.Duration) time.Duration {
	if *lasts > 0 {
		return *lasts
	}
	return d
}

// Tally counts what a long run has done. With the flag -long.state, a run that was
// interrupted continues with the counts of the run before.
type Tally struct {
	tb    testing.TB
	name  string
	began time.Time
	shown time.Time
	tallied
}

// tallied is the part of a Tally that is kept in a file.
type tallied struct {
	Counts map[string]int `json:"counts"`
	Worked time.Duration  `json:"worked"` // in earlier runs
}

// Resume returns the tally of a long run.
func Resume(tb testing.TB, name string) *Tally {
	tb.Helper()
	t := &Tally{tb: tb, name: name, began: time.Now(), shown: time.Now(), tallied: tallied{Counts: map[string]int{}}}
	if *state == "" {
		return t
	}
	data, err := os.ReadFile(t.path())
	if err == nil {
		err = json.Unmarshal(data, &t.tallied)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	return t
}

func (t *Tally) path() string { return filepath.Join(*state, t.name+".json") }

// Add adds to a count.
func (t *Tally) Add(what string, n int) { t.Counts[what] += n }

// Save keeps the counts, and shows them now and then. It does not count what a failed
// test has done.
func (t *Tally) Save() {
	t.tb.Helper()
	if t.tb.Failed() {
		return
	}
	if time.Since(t.shown) > 10*time.Second {
		t.shown = time.Now()
		fmt.Fprintln(os.Stderr, t)
	}
	if *state == "" {
		return
	}
	data, err := json.Marshal(tallied{t.Counts, t.worked()})
	if err == nil {
		err = os.MkdirAll(*state, 0o700)
	}
	if err == nil {
		err = os.WriteFile(t.path()+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(t.path()+".new", t.path())
	}
	if err != nil {
		t.tb.Fatal(err)
	}
}

func (t *Tally) worked() time.Duration { return t.Worked + time.Since(t.began) }

// String returns the counts.
func (t *Tally) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(t.Counts)) {
		all = append(all, fmt.Sprintf("%d %s", t.Counts[what], what))
	}
	return fmt.Sprintf("%s: %s in %s", t.name, strings.Join(all, ", "), t.worked().Round(time.Second))
}
