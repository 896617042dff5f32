package console

import (
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// tokensBody is the page that finds tokens.
type tokensBody struct {
	Query   string
	Rows    []tokenRow
	After   string // cursor of the next page
	Problem string
	Help    []fieldHelp
	First   bool
}

// tokenRow is a token in a table.
type tokenRow struct {
	*vault.Token
	Ref  ref
	Mask string // empty if nothing is shown
}

// Next returns the query of the next page's URL.
func (b *tokensBody) Next() template.URL {
	return query(url.Values{"q": {b.Query}, "after": {b.After}})
}

// fieldHelp explains a field of the query language.
type fieldHelp struct{ Field, Example, About string }

var queryHelp = []fieldHelp{
	{"id:", "id:order-1234", "the token's id, byte for byte"},
	{"type:", "type:card", "the token's type"},
	{"container:", "container:/pci/*", "a container, or all that begin like it"},
	{"metadata.", "metadata.customer:\"Jane Doe\"", "a pair of metadata; upper and lower case are the same"},
	{"fingerprint:", "fingerprint:9YJx…", "tokens with the same value"},
	{"created_at:", "created_at:[2026-01-01 TO *]", "a date, a date-time, or a range of them"},
	{"modified_at:", "modified_at:2026-01-31", "when it was last changed"},
	{"created_by:", "created_by:019b796d-d600-7000-8001-a2a10a7c7aca", "the application or user that made it"},
	{"modified_by:", "modified_by:019b796d-d600-7000-8001-a2a10a7c7aca", "the one that last changed it"},
	{"AND", "type:card AND metadata.plan:gold", "both; terms side by side mean the same"},
	{"OR", "type:card OR type:bank", "one of them"},
	{"NOT", "NOT container:/test/*", "all others"},
}

// noData is the message for a search by data, which a masked client may not make.
// The value would appear in the URL, the browser's history and the logs of servers
// in between.
const noData = "The console takes no values. Search by data with the API, whose requests carry the query in their body."

// tokens searches for tokens, and shows them masked.
func (q *request) tokens(c *vault.Owner, t *vault.Tenant) error {
	asked := q.r.URL.Query()
	b := &tokensBody{Query: asked.Get("q"), Help: queryHelp, First: asked.Get("after") == ""}
	status := http.StatusOK
	if err := b.find(q, c.Masked(), asked.Get("after")); err != nil {
		if !b.explain(err) {
			return err
		}
		status = http.StatusBadRequest
	}
	return q.show(status, "tokens", q.view("tokens", "Tokens", t, b))
}

func (b *tokensBody) find(q *request, c *vault.Client, after string) error {
	size := vault.PageParams{Size: listSize}
	var sel vault.TokenSelection = vault.ListTokensParams{PageParams: size}
	if b.Query != "" {
		sel = vault.SearchTokensParams{Query: b.Query, PageParams: size}
	}
	page, err := c.ListTokensAfter(q.r.Context(), sel, after)
	if err != nil {
		return err
	}
	b.After = page.Pagination.After
	for i := range page.Data {
		t := &page.Data[i]
		row := tokenRow{Token: t, Ref: idRef(t.ID, q.root()+q.tenantPath()+"/tokens/"+pathEscape(t.ID))}
		if t.Data != nil {
			row.Mask = briefMask(t)
		}
		b.Rows = append(b.Rows, row)
	}
	return nil
}

// explain puts the problem on the page if the search itself is wrong, and reports
// whether it is. The page does not repeat a query that may hold a value, even if
// it cannot be parsed.
func (b *tokensBody) explain(err error) bool {
	bad := problemsOf(err)
	switch {
	case errors.Is(err, vault.ErrForbidden):
		b.Problem = noData
	case bad != nil:
		for _, field := range []string{"query", "after", "start", "size"} {
			b.Problem += bad.Of(field)
		}
	default:
		return false
	}
	if strings.Contains(b.Query, "data") {
		b.Query = ""
	}
	return true
}

// token shows one, masked, and what the log has about it, without reads made in the
// console: this page makes one.
func (q *request) token(c *vault.Owner, t *vault.Tenant) error {
	id := q.r.PathValue("id")
	token, err := c.Masked().GetToken(q.r.Context(), id)
	if err != nil {
		return err
	}
	log, _, err := q.readLog(c, vault.ListLogsParams{EntityType: string(token.Type), EntityID: id}, false, uuid.UUID{})
	if err != nil {
		return err
	}
	in := q.in()
	return q.show(http.StatusOK, "token", q.view("tokens", token.ID, t, struct {
		Token   *vault.Token
		Creator ref
		Log     []logRow
	}{token, q.actorRef(c, in, token.CreatedBy), q.logRows(c, in, log)}))
}

// findBody is the page with what has an id.
type findBody struct {
	Found           []finding
	Looked, Tenants int // tenants that were looked at, and all tenants
}

// finding is an entity or a log entry with the id.
type finding struct {
	Kind, Tenant string
	Ref          ref
}

// find looks for an id in the tenant of the page that asked, or in the newest
// tenants. If one thing has the id, it sends the browser to its page.
func (q *request) find() error {
	asked := q.r.URL.Query()
	id := strings.TrimSpace(asked.Get("id"))
	tenants, b, err := q.tenantsToSearch(asked.Get("tenant"))
	if err != nil {
		return err
	}
	for i := range tenants {
		found, err := q.findIn(&tenants[i], id)
		if err != nil {
			return err
		}
		b.Found = append(b.Found, found...)
	}
	if len(b.Found) == 1 {
		return q.seeOther(strings.TrimPrefix(b.Found[0].Ref.Href, q.root()), "")
	}
	return q.show(http.StatusOK, "find", q.view("find", "Find an id", nil, b))
}

func (q *request) tenantsToSearch(asked string) ([]vault.Tenant, *findBody, error) {
	ctx := q.r.Context()
	if id, err := uuid.Parse(asked); err == nil {
		t, err := q.vault.Tenant(id).AsUser(q.user.ID).From(origin(q.r)).GetTenant(ctx)
		if err != nil {
			return nil, nil, err
		}
		return []vault.Tenant{*t}, &findBody{Looked: 1, Tenants: 1}, nil
	}
	list, err := q.vault.ListTenants(ctx, vault.PageParams{Size: 100})
	if err != nil {
		return nil, nil, err
	}
	readable := slices.DeleteFunc(list.Data, func(t vault.Tenant) bool {
		return t.Unreadable || t.Key != nil && t.Key.State != vault.TenantKeyOK
	})
	return readable, &findBody{Looked: len(readable), Tenants: list.Pagination.TotalItems}, nil
}

// findIn looks for an id in a tenant. All but tokens have
// an id with the time of its creation.
func (q *request) findIn(t *vault.Tenant, id string) (found []finding, err error) {
	c := q.vault.Tenant(t.ID).AsUser(q.user.ID).From(origin(q.r))
	in := q.root() + "tenants/" + t.ID.String() + "/"
	token, err := c.Masked().GetToken(q.r.Context(), id)
	switch {
	case err == nil:
		found = append(found, finding{"token", t.Name, idRef(token.ID, in+"tokens/"+pathEscape(token.ID))})
	case !errors.Is(err, vault.ErrNotFound):
		return nil, err
	}
	known, err := uuid.Parse(id)
	if err != nil || known.Version() != 7 {
		return found, nil // it is the id of a token, or of nothing
	}
	for _, kind := range slices.Sorted(maps.Keys(named)) {
		if r := q.namedRef(c, in, kind, known); r.Href != "" {
			return append(found, finding{kind, t.Name, r}), nil
		}
	}
	at := time.Unix(known.Time().UnixTime()).UTC().Truncate(time.Millisecond) // of the entry with this id
	for e, err := range c.AllLogs(q.r.Context(), vault.ListLogsParams{StartDate: at, EndDate: at.Add(time.Millisecond)}) {
		if err != nil {
			return nil, err
		}
		if e.ID == known {
			just := url.Values{"from": {machine(at)}, "to": {machine(at.Add(time.Millisecond))}, "console": {"show"}}
			return append(found, finding{"log entry", t.Name, ref{Text: e.Message, Full: id, Href: in + "log?" + just.Encode()}}), nil
		}
	}
	return found, nil
}
