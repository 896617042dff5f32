package sinks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A destination that refuses everything loses at most ten entries, even if the
// program restarts repeatedly. Later it gets all others.
func TestBrokenDestinationLosesTenEntries(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		w.fill(t, 600)
		w.dest.set(func([]vault.LogEntry) error { return refusal{errors.New("no")} })
		for range 3 {
			v, _ := w.node(t, true)
			for range 3 {
				must.Match(t, "every entry is refused", v.SendLogs(t.Context()), must.Text("refuses every entry"))
				w.clock.Advance(time.Hour)
			}
			if h := v.SinkHealth()["siem"]; h.Failures < 3 || !strings.Contains(h.LastError, "refuses every entry") {
				t.Errorf("%+v", h)
			}
			_ = v.Close()
		}
		w.dest.set(nil)
		v, _ := w.node(t, true)
		must.Do(t, v.SendLogs(t.Context()))
		if all := w.entries(t); len(w.dest.got) != len(all)-10 || w.dest.got[0].ID != all[10] {
			t.Errorf("%d of %d entries came", len(w.dest.got), len(all))
		}
		if status, err := w.admin.ListSinks(t.Context()); err != nil || status[0].Refused != 10 || status[0].Behind != 0 {
			t.Errorf("%+v, %v", status, err)
		}
	})
}

// A destination that refuses the entries of one tenant gets the entries of others,
// because they show that it works.
func TestRefusedTenantDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, memory(t))
	w.fill(t, 25)
	refused := w.acme.TenantID()
	other := must.Get(w.admin.CreateTenant(t.Context(), "Other"))(t)
	w.dest.set(func(entries []vault.LogEntry) error {
		if entries[0].TenantID == refused {
			return refusal{errors.New("no")}
		}
		return nil
	})
	v, _ := w.node(t, true)
	for behind := 1; behind > 0; {
		must.Get(v.Tenant(other.ID).CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
		_ = v.SendLogs(t.Context()) // skips at most ten entries
		status := must.Get(w.admin.ListSinks(t.Context()))(t)
		behind = status[0].Behind
	}
	w.acme = v.Tenant(other.ID)
	w.check(t, 0)
}

// A destination that accepts none, half or all of a batch, and fails, gets the batch
// again.
func TestFailedBatchIsResent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *installation) {
		const failures = 4
		again := 0
		for _, accepted := range []float64{0, 0.5, 1} {
			w.fill(t, 1200)
			w.dest.fail(failures, accepted)
			v, _ := w.node(t, true)
			for range failures {
				_ = v.SendLogs(t.Context()) // or the background work meets the failure
			}
			must.Do(t, v.SendLogs(t.Context()))
			again += int(failures * batchSize * accepted)
			w.check(t, again)
			must.Do(t, v.Close())
			w.clock.Advance(30 * time.Second)
		}
	})
}

// A hanging destination delays neither requests nor Close. The next node sends the
// entries.
func TestHangingDestinationDelaysNothing(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, memory(t))
	hangs := &hanging{arrived: make(chan struct{}, 100)}
	v := w.nodeWith(t, vault.Config{Sinks: []vault.Sink{{Name: "siem", Sender: hangs, FromStart: true}}})
	<-hangs.arrived
	c := v.Tenant(w.acme.TenantID())
	for range 20 {
		must.Get(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
	}
	must.Do(t, v.Close())
	w.clock.Advance(20 * time.Second)
	next, _ := w.node(t, true)
	must.Do(t, next.SendLogs(t.Context()))
	w.check(t, 0)
}

// hanging is a destination that never responds.
type hanging struct{ arrived chan struct{} }

func (h *hanging) Send(ctx context.Context, _ []byte, _ string) error {
	h.arrived <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}
