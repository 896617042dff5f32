//go:build long && unix

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestDumpAndRestore dumps a million tokens with pg_dump while the vault serves, and
// withdraws some afterwards. In the restored copy, after AcceptRestore and EraseAgain,
// everything else is there, and nothing that was withdrawn.
//
//	go test -tags long -run TestDumpAndRestore -timeout 0 ./internal/test/faults -v
func TestDumpAndRestore(t *testing.T) {
	c := cluster(t)
	rows := long.Goal(1_000_000)
	must.Do(t, execOn(c, "CREATE DATABASE copy"))
	copied := must.Get(url.Parse(c.URL))(t)
	copied.Path = "/copy"
	key, notes := vault.NewKey(), t.TempDir()+"/notes"
	cfg := &vault.Config{SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Anchors: []vault.Anchor{vault.AnchorFile(notes)}}}

	began := time.Now()
	step := func(what string) { t.Logf("%s after %s", what, time.Since(began).Round(time.Second)) }
	v := openVault(t, c.URL, key, cfg)
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t).ID
	acme := v.Tenant(tenant)
	for r, err := range acme.Import(t.Context(), numbered(rows), nil) {
		must.Do(t, errors.Join(err, r.Err))
	}
	step(fmt.Sprint(rows, " tokens"))
	served := serveDuring(t, acme, func() { run(t, "pg_dump", "-Fc", "-d", c.URL, "-f", notes+".dump") })
	step(fmt.Sprintf("dumped, while %d tokens were created and read", served))
	withdrawn := withdrawSome(t, acme, rows)
	var bundle bytes.Buffer
	must.Do(t, acme.ExportEvidence(t.Context(), &bundle))
	must.Do(t, v.Close())
	run(t, "pg_restore", "-d", copied.String(), "--no-owner", "--exit-on-error", notes+".dump")
	step("restored")

	v = openVault(t, copied.String(), key, cfg)
	must.Do(t, v.AcceptRestore(t.Context(), "a test"))
	again := must.Get(v.EraseAgain(t.Context(), vault.EraseAgainParams{Files: []io.ReadSeeker{bytes.NewReader(bundle.Bytes())}, Reason: "a test"}))(t)
	step(fmt.Sprintf("withdrawn again: %d tokens", again.Count))
	must.Same(t, "tokens withdrawn again", len(withdrawn), again.Count)
	there := map[string]bool{}
	for tok, err := range v.Tenant(tenant).AllTokens(t.Context(), vault.ListTokensParams{}) {
		must.Do(t, err)
		there[tok.ID] = true
	}
	for n := range rows {
		if id := numberedID(n); there[id] == withdrawn[id] {
			t.Fatalf("%s is there: %t, and was withdrawn: %t", id, there[id], withdrawn[id])
		}
	}
	must.Get(v.Checkpoint(t.Context()))(t)
	report := must.Get(v.VerifyLogs(t.Context(), nil))(t)
	if !report.OK() {
		t.Errorf("the evidence does not verify: %v", report.Findings)
	}
	step(fmt.Sprintf("verified %d leaves; %d tokens are there", report.Entries, len(there)))
}

func numberedID(n int) string { return fmt.Sprintf("number-%d", n) }

func numbered(rows int) func(yield func(vault.TokenParams, error) bool) {
	return func(yield func(vault.TokenParams, error) bool) {
		for n := range rows {
			if !yield(vault.TokenParams{ID: numberedID(n), Type: vault.TypeGeneric, Data: fmt.Sprint("value ", n), Metadata: map[string]string{"block": fmt.Sprint(n / 1000)}}, nil) {
				return
			}
		}
	}
}

// serveDuring creates and reads tokens until do returns, and returns how many.
func serveDuring(t *testing.T, c *vault.Owner, do func()) (n int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			tok, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
			if err == nil {
				_, err = c.GetToken(t.Context(), tok.ID)
			}
			if err != nil {
				t.Error(err)
				return
			}
			n++
		}
	})
	do()
	stop()
	work.Wait()
	return n
}

// withdrawSome erases blocks of tokens by a query, and others by their ids, and deletes
// some. It returns their ids.
func withdrawSome(t *testing.T, c *vault.Owner, rows int) map[string]bool {
	t.Helper()
	gone := map[string]bool{}
	for block := 0; block < rows/1000; block += 50 {
		done := must.Get(c.EraseTokens(t.Context(), vault.EraseParams{Query: fmt.Sprintf(`metadata.block:"%d"`, block), Reason: "block"}))(t)
		must.Same(t, "erased tokens of a block", 1000, done.Count)
		for n := range 1000 {
			gone[numberedID(block*1000+n)] = true
		}
	}
	for n := 1500; n < min(rows, 2000); n++ {
		id := numberedID(n)
		gone[id] = true
		if n%2 == 0 {
			must.Do(t, c.DeleteToken(t.Context(), id))
		} else {
			must.Get(c.EraseTokens(t.Context(), vault.EraseParams{IDs: []string{id}, Reason: "one"}))(t)
		}
	}
	return gone
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
