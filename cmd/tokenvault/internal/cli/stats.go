package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

func statsCommand() *command {
	return &command{
		name: "stats", reach: inProcess, summary: "show how much is stored, and the state of jobs and keys",
		about: `Shows tokens in total, by type and by container, asynchronous runs, entries of
			the log, sessions, and data keys by age: of one tenant with --tenant, otherwise
			of all tenants together.`,
		example: "tokenvault stats --db vault.db --key-file vault.key\ntokenvault stats --tenant Acme --json",
		act:     inVault(stats),
	}
}

// total is the sum of the figures of tenants.
type total struct {
	Tokens            int                     `json:"tokens"`
	TokensByType      map[vault.TokenType]int `json:"tokens_by_type"`
	TokensByContainer map[string]int          `json:"tokens_by_container"`
	Jobs              vault.JobStats          `json:"jobs"`
	LogEntries        int                     `json:"log_entries"`
	Sessions          int                     `json:"sessions"`
	// KeysByAge counts the primary keys by age.
	KeysByAge map[string]int `json:"keys_by_age"`
	Tenants   int            `json:"tenants"`
	// Unreadable is the number of tenants whose rows cannot be read. The other
	// figures do not include them.
	Unreadable int `json:"unreadable_tenants,omitempty"`
}

// Age groups of keys.
const (
	ageMonth   = "under_30_days"
	ageQuarter = "under_90_days"
	ageYear    = "under_365_days"
	ageOld     = "older"
	ageUnknown = "unknown"
)

var ages = []string{ageMonth, ageQuarter, ageYear, ageOld, ageUnknown}

func ageOf(created, now time.Time) string {
	const day = 24 * time.Hour
	switch age := now.Sub(created); {
	case created.IsZero():
		return ageUnknown
	case age < 30*day:
		return ageMonth
	case age < 90*day:
		return ageQuarter
	case age < 365*day:
		return ageYear
	}
	return ageOld
}

func (t *total) add(s *vault.Stats, now time.Time) {
	t.Tenants++
	t.Tokens += s.Tokens
	t.LogEntries += s.LogEntries
	t.Sessions += s.Sessions
	t.Jobs.Waiting += s.Jobs.Waiting
	t.Jobs.Running += s.Jobs.Running
	t.Jobs.Dead += s.Jobs.Dead
	for typ, n := range s.TokensByType {
		t.TokensByType[typ] += n
	}
	for container, n := range s.TokensByContainer {
		t.TokensByContainer[container] += n
	}
	for _, key := range s.Keys {
		if key.State == "primary" {
			t.KeysByAge[ageOf(key.CreatedAt, now)]++
		}
	}
}

func stats(c *call, v *vault.Vault) error {
	t := &total{TokensByType: map[vault.TokenType]int{}, TokensByContainer: map[string]int{}, KeysByAge: map[string]int{}}
	tenants := v.AllTenants(c.ctx)
	if c.target.tenant != "" {
		tenants = func(yield func(*vault.Tenant, error) bool) { yield(c.findTenant(c.target.tenant)) }
	}
	for tenant, err := range tenants {
		if err != nil {
			return err
		}
		if tenant.Unreadable && c.target.tenant == "" {
			t.Unreadable++
			continue
		}
		s, err := v.Tenant(tenant.ID).Stats(c.ctx)
		if err != nil {
			return fmt.Errorf("tenant %s: %w", tenant.ID, err)
		}
		t.add(s, time.Now())
	}
	if c.json {
		return shell.WriteJSON(c.Out, t)
	}
	t.print(c)
	return nil
}

// print prints the figures with small bars.
func (t *total) print(c *call) {
	p := c.palette()
	heading := func(text string) { fmt.Fprintf(c.Out, "\n%s\n", p.Bold(text)) }
	fmt.Fprintln(c.Out, p.Bold("Tokens")+"  "+shell.Grouped(t.Tokens))
	if len(t.TokensByType) > 0 {
		heading("By type")
		printBars(c, t.TokensByType)
	}
	if len(t.TokensByContainer) > 0 {
		heading("By container")
		printBars(c, t.TokensByContainer)
	}
	heading("Asynchronous runs")
	for _, row := range []struct {
		name string
		n    int
	}{{"waiting", t.Jobs.Waiting}, {"running", t.Jobs.Running}, {"given up", t.Jobs.Dead}} {
		fmt.Fprintf(c.Out, "  %-8s  %s\n", row.name, shell.Grouped(row.n))
	}
	heading("Others")
	fmt.Fprintf(c.Out, "  tenants      %s\n  sessions     %s\n  log entries  %s\n", shell.Grouped(t.Tenants), shell.Grouped(t.Sessions), shell.Grouped(t.LogEntries))
	if t.Unreadable > 0 {
		fmt.Fprintf(c.Out, "  unreadable   %s\n", p.Bad(shell.Counted(t.Unreadable, "tenant")))
	}
	heading("Data keys by age")
	for _, age := range ages {
		if n := t.KeysByAge[age]; n > 0 {
			fmt.Fprintf(c.Out, "  %-14s  %s\n", strings.ReplaceAll(age, "_", " "), shell.Grouped(n))
		}
	}
}

// barWidth is the width of the longest bar.
const barWidth = 20

// maxBars is the maximum number of rows in a chart.
const maxBars = 20

// printBars prints counts, the largest first, with a bar for each.
func printBars[K ~string](c *call, counts map[K]int) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	rest := 0
	if len(names) > maxBars {
		for _, name := range names[maxBars:] {
			rest += counts[name]
		}
		names = names[:maxBars]
	}
	width, most := 0, 1
	for _, name := range names {
		width, most = max(width, len(name)), max(most, counts[name])
	}
	digits := len(shell.Grouped(most))
	for _, name := range names {
		bar := strings.Repeat("█", max(1, counts[name]*barWidth/most))
		fmt.Fprintf(c.Out, "  %-*s  %*s  %s\n", width, shell.Printable(string(name)), digits, shell.Grouped(counts[name]), c.palette().Link(bar))
	}
	if rest > 0 {
		fmt.Fprintf(c.Out, "  %-*s  %*s\n", width, "others", digits, shell.Grouped(rest))
	}
}
