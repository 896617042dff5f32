//go:build !race

package bench

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// BenchmarkScale fills vaults on PostgreSQL with a hundredth, a tenth and all of
// VAULT_BENCH_ROWS tokens, with evidence, and measures what could become slower.
// One tenant has half of the tokens. It does nothing without the variable.
func BenchmarkScale(b *testing.B) {
	rows, _ := strconv.Atoi(os.Getenv("VAULT_BENCH_ROWS"))
	for _, n := range slices.Compact([]int{max(rows/100, 2*loadBatch), max(rows/10, 2*loadBatch), max(rows, 2*loadBatch)}) {
		if rows == 0 {
			return
		}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := newScale(b, n)
			for _, c := range append(s.single(b), s.calls()...) {
				s.report(b, c.name, "ms", medianMillis(b, grownCalls, c.call), "")
			}
			s.flood(b)
			s.steps(b)
		})
	}
}

// scale is a vault with many tokens.
type scale struct {
	*growth
	n      int // tokens of all tenants
	user   *user
	victim *user // another tenant
	db     *sql.DB
}

func newScale(b *testing.B, n int) *scale {
	b.Helper()
	dsn := onPostgres.create(b)
	db := openPostgres(b, dsn, false)
	u := newUserWith(b, onPostgres.openStore(b, dsn), &vault.Config{Evidence: &vault.EvidenceConfig{}})
	s := &scale{n: n, user: u, db: db}
	wal, start := selected[float64](b, s, "pg_current_wal_lsn() - '0/0'"), time.Now()
	u.load(b, n/2)
	for left := n - n/2; left > 0; left -= max(loadBatch, n/200) {
		s.victim = u.neighbour(b)
		s.victim.load(b, min(left, max(loadBatch, n/200)))
	}
	took := time.Since(start)
	s.report(b, "Tokenize, µs per token", "us/token", float64(took.Microseconds())/float64(n), "")
	s.report(b, "WAL per token", "wal-B/token", (selected[float64](b, s, "pg_current_wal_lsn() - '0/0'")-wal)/float64(n), "with max_wal_size "+selected[string](b, s, "current_setting('max_wal_size')"))
	if _, err := db.ExecContext(b.Context(), "VACUUM ANALYZE"); err != nil { // autovacuum would do this later
		b.Fatal(err)
	}
	s.report(b, "disk per token", "B/token", selected[float64](b, s, `(SELECT sum(pg_total_relation_size(oid)) FROM pg_class
		WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace)`)/float64(n), "")
	s.growth = growthOf(b, u, n/2)
	return s
}

// selected returns the value of an expression in SQL.
func selected[T any](b *testing.B, s *scale, expression string) (value T) {
	b.Helper()
	must.Do(b, s.db.QueryRowContext(b.Context(), "SELECT "+expression).Scan(&value))
	return value
}

func (s *scale) report(b *testing.B, what, unit string, value float64, rates string) {
	b.Helper()
	report(b, figure{what: what, metric: unit, backend: onPostgres.name, callers: fmt.Sprint(s.n, " tokens"), value: value, unit: unit, rates: rates})
}

// single returns calls about single tokens and log entries from the middle of the
// large tenant, and an import of tokens that exist.
func (s *scale) single(b *testing.B) []growthCall {
	b.Helper()
	ctx, middle := b.Context(), vault.PageParams{Page: s.tokens / 200, Size: 100}
	tokens := must.Get(s.admin.ListTokens(ctx, vault.ListTokensParams{PageParams: middle}))(b)
	logs := must.Get(s.admin.ListLogs(ctx, vault.ListLogsParams{PageParams: middle}))(b)
	next := 0
	return []growthCall{
		{"GetToken", 0, func() error {
			next++
			_, err := s.admin.GetToken(ctx, tokens.Data[next%100].ID)
			return err
		}},
		{"CreateToken and DeleteToken", 0, func() error {
			t, err := s.admin.CreateToken(ctx, vault.TokenParams{Type: "token", Data: "value"})
			if err != nil {
				return err
			}
			return s.admin.DeleteToken(ctx, t.ID)
		}},
		{"LogProof", 0, func() error {
			next++
			_, err := s.admin.LogProof(ctx, logs.Data[next%100].ID)
			return err
		}},
		{"Import of 100 tokens that exist", 0, func() error {
			for _, err := range s.admin.Import(ctx, func(yield func(vault.TokenParams, error) bool) {
				for i := range tokens.Data {
					if !yield(vault.TokenParams{ID: tokens.Data[i].ID, Type: "token", Data: "value"}, nil) {
						return
					}
				}
			}, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

// flood measures reads of another tenant, alone and while twelve callers list the
// large tenant by a metadata pair that most tokens have, under a container rule.
func (s *scale) flood(b *testing.B) {
	b.Helper()
	list := vault.ListTokensParams{Metadata: map[string]string{"share": "rest"}, PageParams: vault.PageParams{Size: grownPage}}
	page, err := s.victim.ListTokens(b.Context(), vault.ListTokensParams{PageParams: vault.PageParams{Size: 1}})
	if err != nil || len(page.Data) == 0 {
		b.Fatal(err)
	}
	reads := map[string]func() error{
		"get": func() error {
			_, err := s.victim.GetToken(context.Background(), page.Data[0].ID)
			return err
		},
		"list": func() error {
			_, err := s.victim.ListTokens(context.Background(), vault.ListTokensParams{PageParams: vault.PageParams{Size: grownPage}})
			return err
		},
	}
	measure := func(when string) {
		for name, read := range reads {
			times := sortedTimes(func() []time.Duration {
				start := time.Now()
				must.Do(b, read())
				return []time.Duration{time.Since(start)}
			})
			s.report(b, "p99 of another tenant's "+name+", "+when, "ms", ms(p99(times)), fmt.Sprintf("median %.2f ms", ms(times[len(times)/2])))
		}
	}
	measure("alone")
	ctx, cancel := context.WithCancel(b.Context())
	var callers sync.WaitGroup
	for range 12 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.halves.ListTokens(ctx, list); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			}
		})
	}
	measure("in a flood of lists")
	cancel()
	callers.Wait()
}

// steps measures what touches the whole vault, and ends with the deletion of the
// large tenant.
func (s *scale) steps(b *testing.B) {
	b.Helper()
	v, ctx, large := s.user.vault, b.Context(), uuid.UUID(s.user.tenant)
	half := float64(s.n / 2)
	for _, step := range []struct {
		name string
		per  float64
		do   func() error
	}{
		{"rotation of the large tenant", half, func() error { return v.RotateDataKeys(ctx, large, nil) }},
		{"verification of the log", float64(s.n), func() error { _, err := v.VerifyLogs(ctx, nil); return err }},
		{"sweep without anything to delete", 0, func() error { _, err := v.Sweep(ctx); return err }},
		{"deletion of the large tenant", half, func() error { return v.DeleteTenant(ctx, large) }},
	} {
		start := time.Now()
		must.Do(b, step.do())
		took, rate := time.Since(start).Seconds(), ""
		if step.per > 0 {
			rate = fmt.Sprintf("%.0f tokens a second", step.per/took)
		}
		s.report(b, step.name, "s", took, rate)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.report(b, "memory of the process from the system", "MB", float64(memory.Sys)/1e6, "")
}
