package console

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

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
func (q *request) tokens() error {
	c, t, err := q.inTenant()
	if err != nil {
		return err
	}
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
func (q *request) token() error {
	c, t, err := q.inTenant()
	if err != nil {
		return err
	}
	id := q.r.PathValue("id")
	token, err := c.Masked().GetToken(q.r.Context(), id)
	if err != nil {
		return err
	}
	log, _, err := q.readLog(c, vault.ListLogsParams{EntityType: string(token.Type), EntityID: id}, false, uuid.UUID{})
	if err != nil {
		return err
	}
	in := q.root() + q.tenantPath() + "/"
	return q.show(http.StatusOK, "token", q.view("tokens", token.ID, t, struct {
		Token   *vault.Token
		Creator ref
		Log     []logRow
	}{token, q.actorRef(c, in, token.CreatedBy), q.logRows(c, in, log)}))
}
