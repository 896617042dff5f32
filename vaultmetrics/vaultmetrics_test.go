package vaultmetrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// figures returns the samples as text.
func figures(m *Metrics) map[string]float64 {
	all := map[string]float64{}
	m.Collect(func(s Sample) { all[fmt.Sprint(s.Name, s.Labels)] = s.Value })
	return all
}

// At most mostApplications applications label a metric.
func TestRefusalsHaveBoundedLabels(t *testing.T) {
	t.Parallel()
	m := New(nil)
	for range mostApplications + 50 {
		m.Observe(t.Context(), httpserver.RequestInfo{Method: "GET", Route: "/tokens", Status: 403, ApplicationID: uuid.New()})
	}
	for range 2 {
		_, end := m.Start(t.Context(), vault.Event{Kind: vault.EventEcho, EntityID: uuid.New()})
		end(nil)
	}
	all := figures(m)
	must.Same(t, "echoes of others", float64(2), all[echoes+"[{application other}]"])
	n := 0
	for name := range maps.Keys(all) {
		if strings.HasPrefix(name, refusals) {
			n++
		}
	}
	must.Same(t, "labels", mostApplications+1, n)
	must.Same(t, "others", float64(50), all[refusals+"[{application other} {status 403}]"])
}

// The buckets are fractions of a second, and a duration counts in every bucket that it
// is below.
func TestDurationsAreInFractionsOfASecond(t *testing.T) {
	t.Parallel()
	m := New(nil)
	for _, took := range []time.Duration{time.Microsecond, 500 * time.Microsecond, 3 * time.Millisecond, time.Hour} {
		m.Observe(t.Context(), httpserver.RequestInfo{Method: "GET", Route: "/tokens", Status: 200, Duration: took})
	}
	m.Collect(func(s Sample) {
		if s.Name != seconds {
			return
		}
		must.Same(t, "the counts", []uint64{2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, s.Histogram.Buckets)
		must.Same(t, "all", uint64(4), s.Histogram.Count)
	})
	below := slices.IndexFunc(Bounds(), func(b float64) bool { return b >= 1 })
	must.Same(t, "bounds below a second", 11, below)
}
