//go:build unix && !race

package power

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func TestMain(m *testing.M) {
	keyring.Horizon = 0 // no other process rotates keys on these databases
	os.Exit(m.Run())
}

// TestPowerFailure records what SQLite writes and syncs while a vault works. Then it
// makes power failures at random moments: of what was not synced by then, each sector is
// lost or not. Every write that was acknowledged must be there, and the evidence must
// verify, also against the newest note that an anchor has. Entries of reads may be lost.
//
//	go test -tags long -run TestPowerFailure -timeout 0 ./internal/test/power -v -args -long.state DIR
func TestPowerFailure(t *testing.T) {
	tally := long.Resume(t, "power")
	for goal := long.Goal(long.Rounds(12, 1000)); tally.Counts["failures"] < goal && !t.Failed(); {
		r := &recording{T: t, folder: t.TempDir(), key: vault.NewKey()}
		r.work(long.Rounds(60, 300))
		for range min(goal-tally.Counts["failures"], long.Rounds(12, 50)) {
			acknowledged, dropped := r.fail()
			tally.Add("failures", 1)
			tally.Add("acknowledged operations", acknowledged)
			tally.Add("sectors dropped", dropped)
			tally.Save()
		}
	}
	t.Log(tally)
}

// recording is the work of a vault.
type recording struct {
	*testing.T
	folder string
	key    *vault.Key
	tenant uuid.UUID
	disk   *disk
	first  int // actions before the work

	mu           sync.Mutex
	acknowledged []operation
	notes        []note
}

// operation is an acknowledged operation, and the number of actions before its
// acknowledgement.
type operation struct {
	what, id string
	at       int
}

type note struct {
	text []byte
	at   int
}

// Latest implements vault.Anchor.
func (r *recording) Latest(context.Context) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notes) == 0 {
		return nil, nil
	}
	return bytes.Clone(r.notes[len(r.notes)-1].text), nil
}

// Put implements vault.Anchor.
func (r *recording) Put(_ context.Context, text []byte) error {
	at := r.disk.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, note{bytes.Clone(text), at})
	return nil
}

// did notes that an operation was acknowledged.
func (r *recording) did(what, id string, err error) {
	at := r.disk.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.Errorf("%s %s: %v", what, id, err)
	}
	r.acknowledged = append(r.acknowledged, operation{what, id, at})
}

// work lets callers write, read, rotate keys and sign.
func (r *recording) work(each int) {
	r.Helper()
	r.disk = record(r.folder)
	v, _ := r.open(filepath.Join(r.folder, "vault.db"), r)
	r.tenant = must.Get(v.CreateTenant(r.Context(), "Acme"))(r).ID
	r.first = r.disk.now()
	var callers sync.WaitGroup
	for n := range 4 {
		callers.Go(func() { r.call(v.Tenant(r.tenant), n, each) })
	}
	callers.Go(func() {
		for range 3 {
			must.Do(r, v.RotateDataKeys(r.Context(), r.tenant, nil))
			must.Get(v.Checkpoint(r.Context()))(r)
		}
	})
	callers.Wait()
	must.Do(r, v.Close())
}

func (r *recording) call(c *vault.Owner, caller, each int) {
	ctx := r.Context()
	for n := range each {
		id := fmt.Sprintf("token-%d-%d", caller, n)
		_, err := c.CreateToken(ctx, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: strings.Repeat("x", 2000)})
		r.did("create", id, err)
		switch n % 4 {
		case 1:
			_, err = c.PatchToken(ctx, id, vault.JSON(`{"data":"changed"}`))
			r.did("update", id, err)
		case 2:
			r.did("delete", id, c.DeleteToken(ctx, id))
		case 3:
			_, err = c.GetToken(ctx, id) // its entry may be lost
			if err != nil {
				r.Error(err)
			}
		}
	}
}

// open opens a vault with an anchor. The second result has the alarms.
func (r *recording) open(file string, anchor vault.Anchor) (*vault.Vault, *alarms) {
	r.Helper()
	a := &alarms{}
	store := must.Get(sqlite.Open(r.Context(), file))(r)
	return must.Get(vault.Open(r.Context(), store, r.key, &vault.Config{
		SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1, Anchors: []vault.Anchor{anchor}, OnAlarm: a.add},
	}))(r), a
}

// alarms keeps alarms.
type alarms struct {
	mu  sync.Mutex
	all []string
}

func (a *alarms) add(alarm vault.Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, fmt.Sprintf("%s: %s", alarm.Kind, alarm.Text))
}

// fail makes a power failure at a random moment, and checks what is there. It returns
// how many operations were acknowledged by then, and how many sectors were lost.
func (r *recording) fail() (acknowledged, dropped int) {
	r.Helper()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	at := r.first + random.IntN(r.disk.now()-r.first)
	files, dropped := r.disk.after(at, random)
	folder := r.TempDir()
	save(r.T, folder, files)
	known := &recording{T: r.T, disk: r.disk}
	for _, n := range r.notes {
		if n.at <= at {
			known.notes = append(known.notes, n)
		}
	}
	v, alarms := r.open(filepath.Join(folder, "vault.db"), known)
	defer v.Close()
	acknowledged = r.check(v.Tenant(r.tenant), at)
	must.Get(v.Checkpoint(r.Context()))(r)
	if report := must.Get(v.VerifyLogs(r.Context(), nil))(r); !report.OK() || len(report.Findings) > 0 || len(alarms.all) > 0 {
		r.Errorf("the evidence does not verify: %v %v", report.Findings, alarms.all)
	}
	if r.Failed() {
		r.Logf("after a power failure after %d actions of %d, with the seed %d", at, r.disk.now(), seed)
	}
	return acknowledged, dropped
}

// check compares the tokens and the log with the operations acknowledged by then.
func (r *recording) check(c *vault.Owner, at int) (acknowledged int) {
	r.Helper()
	tokens, entries := map[string]string{}, map[string]int{}
	for tok, err := range c.AllTokens(r.Context(), vault.ListTokensParams{}) {
		must.Do(r, err)
		tokens[tok.ID] = tok.Data.String()
	}
	for page, last := 1, 1; page <= last; page++ {
		logs := must.Get(c.ListLogs(r.Context(), vault.ListLogsParams{PageParams: vault.PageParams{Page: page, Size: 100}}))(r)
		last = logs.Pagination.TotalPages
		for _, l := range logs.Data {
			entries[string(l.Operation)+" "+l.EntityID]++
		}
	}
	for _, op := range r.acknowledged {
		if op.at > at {
			continue
		}
		acknowledged++
		if entries[op.what+" "+op.id] != 1 {
			r.Errorf("%s %s was acknowledged, and has %d entries in the log", op.what, op.id, entries[op.what+" "+op.id])
		}
		data, there := tokens[op.id]
		if op.what == "update" && !strings.Contains(data, "changed") || there == (op.what == "delete") && entries["delete "+op.id] == 0 {
			r.Errorf("%s %s was acknowledged, and the token is there: %t", op.what, op.id, there)
		}
	}
	for id := range tokens {
		if entries["create "+id] != 1 || entries["delete "+id] != 0 {
			r.Errorf("%s is there, with %d creations and %d deletions in the log", id, entries["create "+id], entries["delete "+id])
		}
	}
	return acknowledged
}
