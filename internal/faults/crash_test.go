package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// The child of TestAcknowledgedWritesSurviveAKill gets its orders by these.
const (
	childDSN    = "VAULT_FAULTS_DSN"
	childKey    = "VAULT_FAULTS_KEY"
	childTenant = "VAULT_FAULTS_TENANT"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childDSN); dsn != "" {
		work := writeUntilKilled
		if os.Getenv(childWorks) != "" {
			work = workUntilKilled
		}
		if err := work(dsn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writeUntilKilled creates, changes, reads, tokenizes and deletes until the
// process is killed. It prints a line for each operation, after it was
// acknowledged and never before.
func writeUntilKilled(dsn string) error {
	ctx := context.Background()
	key, err := vault.ParseKey(os.Getenv(childKey))
	if err != nil {
		return err
	}
	store, err := openStore(ctx, dsn)
	if err != nil {
		return err
	}
	v, err := vault.Open(ctx, store, key, nil)
	if err != nil {
		return err
	}
	c := v.Tenant(uuid.MustParse(os.Getenv(childTenant)))
	var wg sync.WaitGroup
	failed := make(chan error, 8)
	for range cap(failed) {
		wg.Go(func() { failed <- writeForever(ctx, c) })
	}
	return <-failed
}

func writeForever(ctx context.Context, c *vault.Client) error {
	for n := 0; ; n++ {
		tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.Generic, Data: map[string]int{"n": n}, Metadata: map[string]string{"n": fmt.Sprint(n)}})
		if err != nil {
			return err
		}
		fmt.Printf("create %s\n", tok.ID)
		switch n % 4 {
		case 0:
			if _, err := c.GetToken(ctx, tok.ID); err != nil {
				return err
			}
			fmt.Printf("read %s\n", tok.ID)
		case 1:
			if _, err := c.UpdateToken(ctx, tok.ID, vault.JSON(`{"data":{"changed":true}}`)); err != nil {
				return err
			}
			fmt.Printf("update %s\n", tok.ID)
		case 2:
			out, err := c.Tokenize(ctx, []any{"a", "b", n})
			if err != nil {
				return err
			}
			var ids []string
			if err := out.Decode(&ids); err != nil {
				return err
			}
			fmt.Printf("tokenize %s\n", strings.Join(ids, " "))
		case 3:
			if err := c.DeleteToken(ctx, tok.ID); err != nil {
				return err
			}
			fmt.Printf("delete %s\n", tok.ID)
		}
	}
}

// TestAcknowledgedWritesSurviveAKill kills a process in the middle of its work,
// again and again, and looks for all that it was told is done.
func TestAcknowledgedWritesSurviveAKill(t *testing.T) {
	t.Parallel()
	for name, newDSN := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, key := newDSN(t), vault.NewKey()
			v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1})
			tenant, err := v.CreateTenant(t.Context(), "Acme")
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			var done []string
			for range 4 {
				done = append(done, runAndKill(t, dsn, key, tenant.ID, 30+rand.IntN(300))...)
				verify(t, dsn, key, tenant.ID, done)
			}
		})
	}
}

// runAndKill starts a child, lets it report some operations, kills it, and
// returns all that it reported.
func runAndKill(t *testing.T, dsn string, key *vault.Key, tenant uuid.UUID, operations int) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDSN+"="+dsn, childKey+"="+key.Text(), childTenant+"="+tenant.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // a line that was cut off was not acknowledged to anybody
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(line))
		if len(lines) == operations {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if len(lines) < operations {
		t.Fatalf("the child stopped by itself after %d operations", len(lines))
	}
	return lines
}

// verify checks that every operation has its effect and its log entry, that
// every token has its entry, and that the count is that of the tokens.
func verify(t *testing.T, dsn string, key *vault.Key, tenant uuid.UUID, done []string) {
	t.Helper()
	v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1})
	defer v.Close()
	c := v.Tenant(tenant)
	tokens := readTokens(t, c)
	logged := readLog(t, c)
	deleted := map[string]bool{}
	for _, line := range done {
		if id, ok := strings.CutPrefix(line, "delete "); ok {
			deleted[id] = true
		}
	}
	for _, line := range done {
		operation, rest, _ := strings.Cut(line, " ")
		for _, id := range strings.Fields(rest) {
			logName := strings.Replace(operation, "tokenize", "create", 1)
			if !logged[logName+" "+id] {
				t.Errorf("acknowledged, and not in the log: %s", line)
			}
			tok, there := tokens[id]
			switch {
			case operation == "delete" && there:
				t.Errorf("acknowledged, and still there: %s", line)
			case operation != "delete" && !there && !deleted[id] && !logged["delete "+id]:
				t.Errorf("acknowledged, and lost: %s", line)
			case operation == "update" && !strings.Contains(tok.Data.String(), "changed"):
				t.Errorf("acknowledged, and not changed: %s", line)
			}
		}
	}
	for id := range tokens {
		if !logged["create "+id] {
			t.Errorf("a token without its log entry: %s", id)
		}
	}
}

// readTokens returns all tokens, and checks that they are as many as the total
// says. A server may still be finishing the last statement of a client that was
// killed, so the two are read until nothing moves between them.
func readTokens(t *testing.T, c *vault.Client) map[string]vault.Token {
	t.Helper()
	for attempt := 1; ; attempt++ {
		tokens := map[string]vault.Token{}
		for tok, err := range c.AllTokens(t.Context(), vault.ListTokensParams{}) {
			if err != nil {
				t.Fatal(err)
			}
			tokens[tok.ID] = *tok
		}
		page, err := c.ListTokens(t.Context(), vault.ListTokensParams{})
		if err != nil {
			t.Fatal(err)
		}
		if page.Pagination.TotalItems == len(tokens) {
			return tokens
		}
		if attempt == 5 {
			t.Fatalf("total_items is %d, and there are %d tokens", page.Pagination.TotalItems, len(tokens))
		}
	}
}

// readLog returns "operation id" of every entry.
func readLog(t *testing.T, c *vault.Client) map[string]bool {
	t.Helper()
	entries := map[string]bool{}
	for page := 1; ; page++ {
		logs, err := c.ListLogs(t.Context(), vault.ListLogsParams{PageParams: vault.PageParams{Page: page, Size: 100}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range logs.Data {
			entries[e.Operation+" "+e.EntityID] = true
		}
		if page >= logs.Pagination.TotalPages {
			return entries
		}
	}
}
