//go:build !race

package bench

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"text/tabwriter"
)

// figure is one row of the table.
type figure struct {
	what, backend, callers string
	metric                 string // its name among the benchmark's metrics
	value                  float64
	unit                   string  // "x" for a ratio
	goal                   float64 // zero for none
	atMost                 bool    // the goal is a maximum, not a minimum
	rates                  string
}

func (f *figure) met() bool {
	if f.atMost {
		return f.value <= f.goal
	}
	return f.value >= f.goal
}

var (
	figuresMu sync.Mutex
	figures   []figure
)

// report adds a figure to the table and to the benchmark's metrics.
func report(b *testing.B, f figure) {
	b.Helper()
	figuresMu.Lock()
	defer figuresMu.Unlock()
	figures = append(figures, f)
	b.ReportMetric(f.value, f.metric)
	b.ReportMetric(0, "ns/op") // the time of the measurement itself means nothing
}

func TestMain(m *testing.M) {
	if job := os.Getenv(floodVariable); job != "" {
		runFlood(job)
		return
	}
	code := m.Run()
	if len(figures) > 0 {
		printTable()
	}
	os.Exit(code)
}

func printTable() {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nfigure\tbackend\tcallers\treached\tgoal\t\trates")
	for i := range figures {
		f := &figures[i]
		bound, verdict := "at least", "met"
		if f.atMost {
			bound = "at most"
		}
		if !f.met() {
			verdict = "MISSED"
		}
		goal := fmt.Sprintf("%s %.2f", bound, f.goal)
		if f.goal == 0 {
			goal, verdict = "", ""
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f %s\t%s\t%s\t%s\n",
			f.what, f.backend, f.callers, f.value, f.unit, goal, verdict, f.rates)
	}
	_ = w.Flush()
}
