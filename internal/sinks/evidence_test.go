package sinks_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// line is a line of the format native: an entry, or a checkpoint.
type line struct {
	ID         uuid.UUID     `json:"id"`
	Tenant     uuid.UUID     `json:"tenant_id"`
	Index      *int64        `json:"index"`
	Hash       evidence.Hash `json:"leaf_hash"`
	Checkpoint string        `json:"checkpoint"`
	Size       int64         `json:"size"`
}

// take returns the lines of a destination so far, and the checkpoints among them.
func take(d *destination[line]) (all []line, checkpoints []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, d.got = d.got, nil
	for _, l := range all {
		if l.Checkpoint != "" {
			checkpoints = append(checkpoints, l.Checkpoint)
		}
	}
	return all, checkpoints
}

// checkpoints makes nodes send until n checkpoints have arrived, and returns them.
// The background work of another node may also send.
func (w *installation) checkpoints(t *testing.T, d *destination[line], n int, nodes ...*vault.Vault) (all []string) {
	t.Helper()
	for len(all) < n {
		for _, v := range nodes {
			_ = v.SendLogs(t.Context())
		}
		_, more := take(d)
		all = append(all, more...)
		w.clock.Advance(time.Minute)
	}
	return all
}

// evident opens the vault with evidence and a sink.
func (w *installation) evident(t *testing.T, sender vault.LogSender, format string) *vault.Vault {
	t.Helper()
	return w.nodeWith(t, vault.Config{
		Evidence: &vault.EvidenceConfig{Every: -1, Origin: "test.example/log"},
		Sinks:    []vault.Sink{{Name: "siem", Sender: sender, Format: format, FromStart: true}},
	})
}

func checkpoint(t *testing.T, v *vault.Vault) string {
	t.Helper()
	note := must.Get(v.Checkpoint(t.Context()))(t)
	return string(note)
}

// leavesOf returns the leaves of a tenant's tree by entry id, from the bundle for
// auditors.
func leavesOf(t *testing.T, c *vault.Owner) map[uuid.UUID]line {
	t.Helper()
	var bundle bytes.Buffer
	must.Do(t, c.ExportEvidence(t.Context(), &bundle))
	all := map[uuid.UUID]line{}
	for dec := json.NewDecoder(&bundle); dec.More(); {
		var l struct {
			N    int64
			Kind evidence.Kind
			ID   uuid.UUID
			C    evidence.Hash
		}
		must.Do(t, dec.Decode(&l))
		if l.ID != (uuid.UUID{}) {
			all[l.ID] = line{Index: &l.N, Hash: evidence.LeafHash(l.Kind, l.ID, l.C)}
		}
	}
	return all
}

// With evidence, the sink sends the index and leaf of each entry, and the signed
// notes.
func TestSinksAreAnchors(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		w.fill(t, 20) // before evidence is enabled
		out := &destination[line]{}
		v := w.evident(t, out, "")
		acme := v.Tenant(w.acme.TenantID())
		tenant := must.Get(v.CreateTenant(t.Context(), "Other"))(t)
		other := v.Tenant(tenant.ID)
		w.acme = acme
		w.fill(t, 1200)
		notes := []string{checkpoint(t, v)}
		visible(t, other)
		must.Do(t, v.SendLogs(t.Context()))
		w.fill(t, 10)
		w.clock.Advance(time.Minute)
		notes = append(notes, checkpoint(t, v))
		must.Do(t, v.SendLogs(t.Context()))
		want := map[uuid.UUID]map[uuid.UUID]line{acme.TenantID(): leavesOf(t, acme), other.TenantID(): leavesOf(t, other)}
		all, got := take(out)
		entries, located := len(all)-len(got), 0
		for _, l := range all {
			if l.Index == nil {
				continue
			}
			located++
			if leaf := want[l.Tenant][l.ID]; leaf.Index == nil || *leaf.Index != *l.Index || leaf.Hash != l.Hash {
				t.Fatalf("the entry %s has index %d, which is not the index or not the leaf in the bundle", l.ID, *l.Index)
			}
		}
		if entries < 1230 || located < 1210 {
			t.Errorf("%d entries, %d with a leaf", entries, located)
		}
		must.Same(t, "checkpoints", notes, got[max(0, len(got)-2):])
	})
}

// Checkpoints arrive at least once and in order, even if the destination fails or
// the node dies between sending a checkpoint and storing its position. Two nodes
// do not both send them.
func TestCheckpointsAreSentOnce(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, memory(t))
	out := &destination[line]{}
	first, second := w.evident(t, out, ""), w.evident(t, out, "")
	w.acme = first.Tenant(w.acme.TenantID())
	var want []string
	for i := range 6 {
		w.fill(t, 1)
		w.clock.Advance(time.Minute)
		want = append(want, checkpoint(t, first))
		if i%2 == 1 {
			failed := false
			out.set(func(lines []line) error {
				if failed || lines[0].Checkpoint == "" {
					return nil
				}
				failed = true
				return errKilled
			})
		}
		for _, v := range []*vault.Vault{first, second, first} {
			_ = v.SendLogs(t.Context()) // or the background does
		}
	}
	got := w.checkpoints(t, out, len(want), first, second)
	must.Same(t, "lines", want, got)
	must.Do(t, first.ResetSink(t.Context(), "siem", time.Time{}))
	w.clock.Advance(time.Minute)
	must.Same(t, "after a reset", want, w.checkpoints(t, out, len(want), first, second))
}
