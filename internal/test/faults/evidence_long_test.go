//go:build long && unix

package faults

import (
	"testing"
	"time"
)

// TestEvidenceSurvivesFailovers kills nodes that keep evidence while their server
// fails, and its synchronous standby takes over, again and again.
func TestEvidenceSurvivesFailovers(t *testing.T) {
	t.Parallel()
	pair := newPair(t)
	failovers := 0
	evidenceThoughKilled(t, pair.address+"&target_session_attrs=read-write", func() {
		<-time.After(2 * time.Second) // the nodes write at the same time
		pair.fail(t)
		failovers++
	})
	if t.Logf("%d failovers", failovers); failovers == 0 {
		t.Error("the nodes ended before the first failover")
	}
}
