package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// entriesOf returns the rows of a page of the log.
func entriesOf(page string) []string {
	_, rows, _ := strings.Cut(page, "<tbody>")
	rows, _, _ = strings.Cut(rows, "</tbody>")
	return strings.Split(rows, "<tr>")[1:]
}

// TestConsoleReadsAreMarked reads and changes entities in the console. The log
// keeps all of these calls, marked. The page of the log hides the reads by
// default.
func TestConsoleReadsAreMarked(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("owner")
	for range 60 {
		v.get(w.inTenant("tokens/order-2"))
	}
	v.post(strings.TrimSuffix(w.inTenant(""), "/"), url.Values{"name": {"Renamed"}})
	logged := must.Get(w.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "order-2", Operation: "read"}))(t)
	if logged.Pagination.TotalItems != 60 || logged.Data[0].Origin != "console 127.0.0.1" || logged.Data[0].ActorName != "owner@example.com" {
		t.Errorf("%d reads are logged, the newest as %+v", logged.Pagination.TotalItems, logged.Data[0])
	}

	if _, page := v.get(w.inTenant("tokens/order-2")); len(entriesOf(page)) == 0 || strings.Contains(page, ">console<") || !strings.Contains(page, "entity_id=order-2&amp;console=show") {
		t.Error("the page of a token shows reads of the console, or no way to them")
	}
	_, page := v.get(w.inTenant("log"))
	first := entriesOf(page)[0]
	if !strings.Contains(first, "Tenant updated") || !strings.Contains(first, `<span class="tag">console</span> 127.0.0.1`) {
		t.Errorf("a change made in the console is not shown first, or not marked: %s", first)
	}
	for _, row := range entriesOf(page) {
		if strings.Contains(row, ">console<") && strings.Contains(row, ">read<") {
			t.Errorf("a read of the console is shown: %s", row)
		}
	}
	must.Contain(t, "the page has no link that shows the reads", page, `<a href="?console=show">Show them</a>`)
	if _, page = v.get(w.inTenant("log?console=show&entity_id=order-2")); len(entriesOf(page)) != 50 || !strings.Contains(entriesOf(page)[0], ">console<") {
		t.Errorf("with them: %d rows", len(entriesOf(page)))
	}
	if _, lines := v.get(w.inTenant("log.jsonl?entity_id=order-2&operation=read")); strings.Count(lines, `"origin":"console 127.0.0.1"`) != 61 {
		t.Error("an export leaves reads out")
	}
}

var olderPattern = regexp.MustCompile(`href="\?([^"]*before=[^"]*)">Older`)

// TestPagesOfTheLog follows the links to older entries, and finds each entry once
// and in order, although reads of the console lie between them.
func TestPagesOfTheLog(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("viewer")
	var want []string
	for i := range 120 {
		id := fmt.Sprintf("paged-%03d", i)
		must.Get(w.Owner.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}))(t)
		want = append([]string{id}, want...)
		if i%2 == 0 {
			v.get(w.inTenant("tokens/" + id))
		}
	}
	var got []string
	for query := "from=2001-01-01T00:00"; query != ""; {
		_, page := v.get(w.inTenant("log?" + query))
		for _, row := range entriesOf(page) {
			if _, rest, ok := strings.Cut(row, `title="paged-`); ok {
				got = append(got, "paged-"+rest[:3])
			}
		}
		older := olderPattern.FindStringSubmatch(page)
		if query = ""; older != nil {
			query = strings.ReplaceAll(older[1], "&amp;", "&")
		}
	}
	must.Same(t, "the values differ", want, got)
}

// TestOrigin formats the origin of requests.
func TestOrigin(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7:99": "console 192.0.2.7", "[::ffff:192.0.2.7]:99": "console 192.0.2.7", "[2001:db8::1%eth0]:99": "console 2001:db8::1", "@": "console",
		"[2001:db8:1234:5678:9abc:def0:123:567]:99":   "console 2001:db8:1234:5678:9abc:def0:123:567",
		"[2a01:4f8b:1234:5678:9abc:def0:1234:5678]:9": "console 2a01:4f8b:1234:5678::/64",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = addr
		if got := console.Origin(r); got != want || len(got) > 45 {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}
