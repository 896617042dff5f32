package faults

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The environment variables that configure the child process.
const (
	childDSN    = "VAULT_FAULTS_DSN"
	childKey    = "VAULT_FAULTS_KEY"
	childTenant = "VAULT_FAULTS_TENANT"
	childLedger = "VAULT_FAULTS_LEDGER" // with evidence
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childDSN); dsn != "" {
		work := writeUntilKilled
		for variable, other := range map[string]func(context.Context, string) error{
			childWorks: workUntilKilled, childImport: importUntilKilled, childEvidence: logUntilKilled, childErase: eraseUntilKilled,
		} {
			if os.Getenv(variable) != "" {
				work = other
			}
		}
		if err := work(context.Background(), dsn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if !long.Run {
		keyring.Horizon = 0 // no other process rotates keys on this database
	}
	status := m.Run()
	if err := schemas.Drop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// openInChild opens the vault of a child process.
func openInChild(ctx context.Context, dsn string, cfg *vault.Config) (*vault.Vault, error) {
	key, err := vault.ParseKey(os.Getenv(childKey))
	if err != nil {
		return nil, err
	}
	store, err := openStore(ctx, dsn)
	if err != nil {
		return nil, err
	}
	v, err := vault.Open(ctx, store, key, cfg)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return v, nil
}

// child is another process with a vault on the same database.
type child struct {
	*exec.Cmd
	out *bufio.Reader
}

// startChild starts a child, with more variables in its environment.
func startChild(t *testing.T, dsn string, key *vault.Key, variables ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childDSN+"="+dsn, childKey+"="+key.Text()), os.Stderr
	cmd.Env = append(cmd.Env, variables...)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	return &child{cmd, bufio.NewReader(out)}
}

// killWhen kills the child when enough accepts the lines that it has printed so far. It
// returns all its lines, and whether it was killed. An incomplete line at the end was
// not acknowledged to anybody.
func (c *child) killWhen(t *testing.T, enough func(lines []string) bool) (lines []string, killed bool) {
	t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			_ = c.Wait()
			return lines, killed
		}
		lines = append(lines, strings.TrimSpace(line))
		if !killed && enough(lines) {
			killed = true
			must.Do(t, c.Process.Kill())
		}
	}
}

// writeUntilKilled does all kinds of writes, and rotates the tenant's keys,
// until the process is killed. It prints a line for each operation after it is
// acknowledged, never before.
func writeUntilKilled(ctx context.Context, dsn string) error {
	cfg := &vault.Config{WorkEvery: -1} // jobs stay in their state
	if os.Getenv(childLedger) != "" {
		cfg.Evidence = &vault.EvidenceConfig{Every: time.Second}
	}
	v, err := openInChild(ctx, dsn, cfg)
	if err != nil {
		return err
	}
	tenant := uuid.MustParse(os.Getenv(childTenant))
	shop, err := openShop(ctx, dsn)
	if err != nil {
		return err
	}
	const writers = 8
	failed := make(chan error, writers+1)
	for first := range writers {
		w, err := newWriter(ctx, v, shop, tenant)
		if err != nil {
			return err
		}
		go func() { failed <- w.writeForever(ctx, first) }()
	}
	go func() {
		for {
			if err := v.RotateDataKeys(ctx, tenant, nil); err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

// TestAcknowledgedWritesSurviveAKill kills a process in the middle of its work,
// several times. Everything that was acknowledged must still be there.
func TestAcknowledgedWritesSurviveAKill(t *testing.T) {
	t.Parallel()
	onEach(t, backends, func(t *testing.T, _, dsn string) {
		key := vault.NewKey()
		v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1})
		tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
		must.Do(t, v.Close())
		var done []string
		for range long.Rounds(2, 8) {
			done = append(done, runAndKill(t, dsn, key, tenant.ID, 110+rand.IntN(long.Rounds(50, 300)))...)
			verify(t, dsn, key, tenant.ID, done)
		}
		// Finish the rotation that every kill interrupted.
		v = openVault(t, dsn, key, &vault.Config{SweepEvery: -1, WorkEvery: -1})
		must.Do(t, v.RotateDataKeys(t.Context(), tenant.ID, nil))
		verify(t, dsn, key, tenant.ID, done)
	})
}

// runAndKill starts a child and kills it after some operations, with at least one
// of each kind. It returns all lines that the child printed.
func runAndKill(t *testing.T, dsn string, key *vault.Key, tenant uuid.UUID, operations int, variables ...string) []string {
	t.Helper()
	name, missing := uuid.NewString(), maps.Clone(effects)
	c := startChild(t, named(dsn, name), key, append(variables, childTenant+"="+tenant.String())...)
	lines, killed := c.killWhen(t, func(lines []string) bool {
		word, _, _ := strings.Cut(lines[len(lines)-1], " ")
		delete(missing, word)
		return len(missing) == 0 && len(lines) >= operations
	})
	if !killed {
		t.Fatalf("the child exited on its own after %d operations", len(lines))
	}
	gone(t, dsn, name)
	return lines
}

// named sets the application name of a server's sessions. SQLite has no
// sessions.
func named(dsn, name string) string {
	if !strings.Contains(dsn, "://") {
		return dsn
	}
	return dsn + "&application_name=" + name
}

// gone waits until a server has ended the sessions with this name: it may still
// run the last statement of a killed client.
func gone(t *testing.T, dsn, name string) {
	t.Helper()
	if !strings.Contains(dsn, "://") {
		return
	}
	db := must.Get(sql.Open("postgres", dsn))(t)
	defer db.Close()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for left := 1; left > 0; <-look.C {
		must.Do(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name).Scan(&left))
	}
}

// verify checks that every operation has its effect and its log entry, that
// every token has its log entry, and that the count of tokens is right.
func verify(t *testing.T, dsn string, key *vault.Key, tenant uuid.UUID, done []string) {
	t.Helper()
	store := must.Get(openStore(t.Context(), dsn))(t)
	v := must.Get(vault.Open(t.Context(), store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1}))(t)
	defer v.Close()
	c := v.Tenant(tenant)
	a := &aftermath{store: store, v: v, c: c.Client, done: map[string]int{}}
	a.readRows(t, dsn)
	for _, line := range done {
		a.done[line]++
		word, _, _ := strings.Cut(line, " ")
		a.done[word]++
	}
	for _, line := range done {
		word, rest, _ := strings.Cut(line, " ")
		if problem := effects[word](t, a, strings.Fields(rest)); problem != "" {
			t.Errorf("acknowledged, but %s: %s", problem, line)
		}
	}
	for id := range a.tokens {
		if a.logged["create "+id] == 0 {
			t.Errorf("a token without its log entry: %s", id)
		}
	}
	for what, created := range a.logged {
		id, ok := strings.CutPrefix(what, "token create ")
		if _, there := a.tokens[id]; ok && created-a.logged["token delete "+id] != map[bool]int{true: 1}[there] {
			t.Errorf("the log has %d creations and %d deletions of %s, which exists: %t", created, a.logged["token delete "+id], id, there)
		}
	}
}

// readTokens returns all tokens and checks that their number equals the total.
// A server may still run the last statement of a killed client, so it reads
// again until the two agree.
func readTokens(t *testing.T, c *vault.Client) map[string]vault.Token {
	t.Helper()
	for attempt := 1; ; attempt++ {
		tokens := map[string]vault.Token{}
		for tok, err := range c.AllTokens(t.Context(), vault.ListTokensParams{}) {
			must.Do(t, err)
			tokens[tok.ID] = *tok
		}
		page := must.Get(c.ListTokens(t.Context(), vault.ListTokensParams{}))(t)
		if page.Pagination.TotalItems == len(tokens) {
			return tokens
		}
		if attempt == 5 {
			t.Fatalf("total_items is %d, but there are %d tokens", page.Pagination.TotalItems, len(tokens))
		}
	}
}

// readLog counts the log entries by operation and entity id, and by operation
// and entity type.
func readLog(t *testing.T, c *vault.Client) map[string]int {
	t.Helper()
	entries := map[string]int{}
	for page := 1; ; page++ {
		logs := must.Get(c.ListLogs(t.Context(), vault.ListLogsParams{PageParams: vault.PageParams{Page: page, Size: 100}}))(t)
		for _, e := range logs.Data {
			entries[string(e.Operation)+" "+e.EntityID]++
			entries[string(e.Operation)+" "+e.EntityType]++
			entries[e.EntityType+" "+string(e.Operation)+" "+e.EntityID]++
		}
		if page >= logs.Pagination.TotalPages {
			return entries
		}
	}
}
