package cli_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// destination is a log sink that fails while err is set.
type destination struct{ err error }

func (d *destination) Send(context.Context, []byte, string) error { return d.err }

// sends opens the vault with a sink at a time, and lets it send.
func (w *toolVault) sends(at time.Time, dest vault.LogSender) {
	w.t.Helper()
	store := must.Get(sqlite.Open(w.t.Context(), w.env["DB"]))(w.t)
	key := must.Get(vault.ParseKey(w.env["KEY"]))(w.t)
	v := must.Get(vault.Open(w.t.Context(), store, key, &vault.Config{
		SweepEvery: -1, WorkEvery: -1, Now: func() time.Time { return at }, Sinks: []vault.Sink{{Name: "siem", Sender: dest, FromStart: true}},
	}))(w.t)
	_, err := v.CreateTenant(w.t.Context(), "Of "+at.String())
	_ = v.SendLogs(w.t.Context())
	must.Do(w.t, errors.Join(err, v.Close()))
}

// doctor reports sinks that are behind, and the sink commands fix them.
func TestSinkCommands(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	doctor := func(want string) {
		t.Helper()
		must.Contain(t, "doctor", w.exits(0, "doctor", "--egress-url", ""), want)
	}
	must.Lack(t, "doctor without sinks", w.exits(0, "doctor", "--egress-url", ""), "sinks")
	w.sends(time.Now().Add(-time.Hour), &destination{errors.New("out of reach")})
	doctor("siem is 1h0m")
	doctor("it last took entries never")
	must.Contain(t, "the list", w.exits(0, "sink", "list"), "siem")
	w.exits(0, "sink", "skip", "siem", "--yes")
	doctor("siem is up to date; it last took entries never")
	w.exits(0, "sink", "reset", "siem", "--yes")
	doctor("siem is 1h0m")
	w.sends(time.Now().Add(time.Minute), &destination{})
	doctor("siem is up to date; it last took entries at ")
}
