package faults

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// childEvidence makes the child a node that keeps evidence. Its value is the prefix
// of the node's tokens.
const childEvidence = "VAULT_FAULTS_EVIDENCE"

// childFailover makes a node continue after errors, because its database fails over.
const childFailover = "VAULT_FAULTS_FAILOVER"

// rolledBack is part of the ids of tokens whose transaction was rolled back.
const rolledBack = "-rolled-back-"

// logUntilKilled writes to the logs of several tenants, in its own transactions too,
// until the process is killed. It prints the ids of tokens that are committed.
func logUntilKilled(ctx context.Context, dsn string) error {
	fails := os.Getenv(childFailover) != ""
	v, shop, err := openLogging(ctx, dsn)
	for err != nil && fails {
		<-time.After(20 * time.Millisecond)
		v, shop, err = openLogging(ctx, dsn)
	}
	if err != nil {
		return err
	}
	var owners []*vault.Owner
	for text := range strings.SplitSeq(os.Getenv(childTenant), ",") {
		owners = append(owners, v.Tenant(uuid.MustParse(text)))
	}
	for n := 0; ; n++ {
		owner := owners[rand.IntN(len(owners))]
		id := fmt.Sprintf("%s-%d", os.Getenv(childEvidence), n)
		if err := logOnce(ctx, owner, shop, id); err != nil && !fails {
			return err
		}
	}
}

// openLogging opens the vault and the application's database of a node.
func openLogging(ctx context.Context, dsn string) (*vault.Vault, *sql.DB, error) {
	shop, err := openShop(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	v, err := openInChild(ctx, dsn, &vault.Config{SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: 50 * time.Millisecond}})
	if err != nil {
		return nil, nil, errors.Join(err, shop.Close())
	}
	return v, shop, nil
}

// logOnce does one thing that leaves an entry, or leaves none.
func logOnce(ctx context.Context, owner *vault.Owner, shop *sql.DB, id string) error {
	params := vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}
	switch rand.IntN(4) {
	case 0: // a transaction that commits late
		tx, err := shop.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		if _, err := owner.InTx(tx).CreateToken(ctx, params); err != nil {
			return err
		}
		<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond)
		if err := tx.Commit(); err != nil {
			return err
		}
	case 1: // a transaction that is rolled back
		tx, err := shop.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		params.ID = strings.Replace(id, "-", rolledBack, 1)
		if _, err := owner.InTx(tx).CreateToken(ctx, params); err != nil {
			return err
		}
		return tx.Rollback()
	default:
		if _, err := owner.CreateToken(ctx, params); err != nil {
			return err
		}
		if _, err := owner.GetToken(ctx, id); err != nil {
			return err
		}
	}
	fmt.Println(id)
	return nil
}

// TestEvidenceSurvivesKills kills nodes that keep evidence of the same logs, again
// and again. Every committed entry is in the trees exactly once.
func TestEvidenceSurvivesKills(t *testing.T) {
	t.Parallel()
	onEach(t, backends, func(t *testing.T, _, dsn string) {
		evidenceThoughKilled(t, dsn, nil)
	})
}

// evidenceThoughKilled kills nodes. If failover is not nil, it replaces their server
// during that time.
func evidenceThoughKilled(t *testing.T, dsn string, failover func()) {
	t.Helper()
	key, cfg := vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1}}
	v := openVault(t, dsn, key, cfg)
	var tenants []string
	for range long.Rounds(3, 16) {
		tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
		tenants = append(tenants, tenant.ID.String())
	}
	shop, err := openShop(t.Context(), dsn) // its table cannot be created by two nodes at once
	must.Do(t, err)
	defer shop.Close()
	var mu sync.Mutex
	var acked, prefixes []string
	var nodes sync.WaitGroup
	for node := range long.Rounds(2, 4) {
		nodes.Go(func() {
			for life := range long.Rounds(2, 12) {
				prefix := fmt.Sprintf("node%d.%d", node, life)
				lines := logAndKill(t, dsn, key, strings.Join(tenants, ","), prefix, 10+rand.IntN(long.Rounds(30, 200)), failover != nil)
				mu.Lock()
				acked, prefixes = append(acked, lines...), append(prefixes, prefix)
				mu.Unlock()
			}
		})
	}
	if failover != nil {
		failWhile(&nodes, failover)
	}
	nodes.Wait()
	for _, prefix := range prefixes {
		gone(t, dsn, prefix)
	}
	settle(t, v)
	found := map[string]int{}
	for _, id := range tenants {
		for _, token := range created(t, v, uuid.MustParse(id)) {
			found[token]++
		}
	}
	for _, id := range acked {
		must.Same(t, "the entry of "+id, 1, found[id])
	}
	for id, n := range found {
		if n != 1 || strings.Contains(id, rolledBack) {
			t.Errorf("the entry of %s is %d times in the tree", id, n)
		}
	}
	t.Logf("%d tokens were acknowledged", len(acked))
}

// failWhile calls failover again and again until the nodes have ended.
func failWhile(nodes *sync.WaitGroup, failover func()) {
	over := make(chan struct{})
	go func() {
		nodes.Wait()
		close(over)
	}()
	for {
		select {
		case <-over:
			return
		default:
			failover()
		}
	}
}

// logAndKill starts a node and kills it after some lines. It returns all lines.
func logAndKill(t *testing.T, dsn string, key *vault.Key, tenants, prefix string, operations int, failover bool) []string {
	variables := []string{childTenant + "=" + tenants, childEvidence + "=" + prefix}
	if failover {
		variables = append(variables, childFailover+"=1")
	}
	lines, killed := startChild(t, named(dsn, prefix), key, variables...).killWhen(t, func(lines []string) bool { return len(lines) == operations })
	if !killed {
		t.Errorf("%s exited on its own after %d operations", prefix, len(lines))
	}
	return lines
}

// settle signs everything, and finds nothing.
func settle(t *testing.T, v *vault.Vault) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		must.Get(v.Checkpoint(t.Context()))(t)
		report := must.Get(v.VerifyLogs(t.Context(), nil))(t)
		if !report.OK() {
			t.Fatalf("%+v", report.Findings)
		}
		waits := func(f evidence.Finding) bool { return f.Verdict == evidence.Unsequenced }
		if !slices.ContainsFunc(report.Findings, waits) {
			return
		}
		<-tick.C
	}
}

// created verifies the bundle of a tenant. It returns the tokens that entries say were
// created.
func created(t *testing.T, v *vault.Vault, tenant uuid.UUID) (tokens []string) {
	t.Helper()
	var bundle bytes.Buffer
	must.Do(t, v.Tenant(tenant).ExportEvidence(t.Context(), &bundle))
	key := must.Get(v.EvidenceKey())(t)
	report, err := evidence.Verify(bytes.NewReader(bundle.Bytes()), key, nil)
	if err != nil || !report.OK() {
		t.Fatalf("%v, %+v", err, report)
	}
	for line := range bytes.Lines(bundle.Bytes()) {
		var l struct {
			Entry struct {
				Operation  string `json:"operation"`
				EntityType string `json:"entity_type"`
				EntityID   string `json:"entity_id"`
			}
		}
		must.Do(t, json.Unmarshal(line, &l))
		if l.Entry.Operation == "create" && l.Entry.EntityType == "token" {
			tokens = append(tokens, l.Entry.EntityID)
		}
	}
	return tokens
}
