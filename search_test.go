package vault_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// many creates tokens t000, t001, ... and returns their ids, newest first.
func many(t *testing.T, v *vaulttest.Vault, n int) []string {
	t.Helper()
	var out []string
	for i := range n {
		out = append(out, given.Create(t, v.Owner.Client, vault.TokenParams{ID: fmt.Sprintf("t%03d", i), Type: vault.TypeGeneric, Data: i}).ID)
		if i%3 == 0 { // some are created at the same moment
			v.Clock.Advance(time.Millisecond)
		}
	}
	slices.Reverse(out)
	return out
}

func TestListIsNewestFirstAndPaged(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	all := many(t, v, 45)
	for _, tt := range []struct {
		page, size int
		want       []string
		pages      int
	}{
		{0, 0, all[:20], 3}, {1, 20, all[:20], 3}, {2, 20, all[20:40], 3}, {3, 20, all[40:], 3}, {4, 20, []string{}, 3},
		{1, 45, all, 1}, {1, 100, all, 1}, {45, 1, all[44:], 45}, {2, 7, all[7:14], 7}, {1 << 30, 100, []string{}, 1},
	} {
		page, err := v.Private.ListTokens(t.Context(), vault.ListTokensParams{PageParams: vault.PageParams{Page: tt.page, Size: tt.size}})
		if err != nil {
			t.Errorf("page %d of %d: %v", tt.page, tt.size, err)
			continue
		}
		given.Same(t, fmt.Sprint("page ", tt.page, " of ", tt.size), given.IDs(page), tt.want)
		given.Same(t, "pagination", page.Pagination, vault.Pagination{TotalItems: 45, PageNumber: max(tt.page, 1),
			PageSize: map[bool]int{true: 20, false: tt.size}[tt.size == 0], TotalPages: tt.pages})
		if page.Data == nil {
			t.Error("an empty page is not an empty array")
		}
	}
}

func TestPageBounds(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, tt := range []struct {
		page, size int
		fields     []string
	}{
		{-1, 20, []string{"page"}}, {1, -1, []string{"size"}}, {1, 101, []string{"size"}}, {-1, 101, []string{"page", "size"}}, {1 << 40, 1, []string{"page"}},
	} {
		p := vault.PageParams{Page: tt.page, Size: tt.size}
		for name, err := range map[string]error{
			"tokens":       must.Err(v.Owner.ListTokens(t.Context(), vault.ListTokensParams{PageParams: p})),
			"search":       must.Err(v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "type:card", PageParams: p})),
			"logs":         must.Err(v.Owner.ListLogs(t.Context(), vault.ListLogsParams{PageParams: p})),
			"applications": must.Err(v.Owner.ListApplications(t.Context(), vault.ListApplicationsParams{PageParams: p})),
			"reactors":     must.Err(v.Owner.ListReactors(t.Context(), vault.ListParams{PageParams: p})),
			"proxies":      must.Err(v.Owner.ListProxies(t.Context(), vault.ListParams{PageParams: p})),
			"tenants":      must.Err(v.ListTenants(t.Context(), p)),
		} {
			given.WantFields(t, fmt.Sprintf("%s, page %d of %d", name, tt.page, tt.size), err, tt.fields...)
			if slices.Contains(tt.fields, "page") && !strings.Contains(err.Error(), "from 1 to 2147483647") {
				t.Errorf("%s, page %d: %v does not say which pages there are", name, tt.page, err)
			}
		}
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok1", Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"User": "Jane", "n": "1"}})
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok2", Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"user": "JANE", "n": "2"}})
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}, Metadata: map[string]string{"user": "jane", "n": "1"}})
	_, other := v.NewTenant(t, "Other")
	given.Create(t, other.Client, vault.TokenParams{ID: "theirs", Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"user": "jane"}})
	for _, tt := range []struct {
		name string
		p    vault.ListTokensParams
		want []string
	}{
		{"all", vault.ListTokensParams{}, []string{"card", "tok2", "tok1"}},
		{"one id", vault.ListTokensParams{IDs: []string{"tok1"}}, []string{"tok1"}},
		{"several ids", vault.ListTokensParams{IDs: []string{"tok1", "card", "missing", "theirs"}}, []string{"card", "tok1"}},
		{"ids are exact", vault.ListTokensParams{IDs: []string{"TOK1"}}, []string{}},
		{"one type", vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCard}}, []string{"card"}},
		{"several types", vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCard, vault.TypeGeneric}}, []string{"card", "tok2", "tok1"}},
		{"values in any case", vault.ListTokensParams{Metadata: map[string]string{"user": "jAnE"}}, []string{"card", "tok2"}},
		{"keys exactly", vault.ListTokensParams{Metadata: map[string]string{"User": "jane"}}, []string{"tok1"}},
		{"not a part of a value", vault.ListTokensParams{Metadata: map[string]string{"user": "jan"}}, []string{}},
		{"several pairs are ANDed", vault.ListTokensParams{Metadata: map[string]string{"user": "jane", "n": "1"}}, []string{"card"}},
		{"all kinds are ANDed", vault.ListTokensParams{IDs: []string{"tok2", "card"}, Types: []vault.TokenType{vault.TypeGeneric}, Metadata: map[string]string{"user": "jane"}}, []string{"tok2"}},
	} {
		found, total := given.List(t, v.Private, tt.p)
		given.Same(t, tt.name, found, tt.want)
		given.Same(t, tt.name+": total", total, len(tt.want))
	}
	given.WantFields(t, "NUL in an id", must.Err(v.Private.ListTokens(t.Context(), vault.ListTokensParams{IDs: []string{"a\x00b"}})), "id")
	_, err := v.Private.ListTokens(t.Context(), vault.ListTokensParams{IDs: make([]string, 1001)})
	must.Match(t, "too many ids", err, vault.ErrInvalid)
}

// A list holds and counts only what the client may read, over all pages.
func TestListUnderRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for i, containers := range [][]string{{"/pci/high/"}, {"/pci/low/"}, {"/pii/"}, {"/pci/low/", "/pii/"}, {"/"}, {"/pcix/"}} {
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.TypeGeneric, Data: "secret", Containers: containers})
	}
	id := func(op, value string) vault.AccessRule {
		return vault.AccessRule{Priority: 1, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"},
			Conditions: []vault.Condition{{Attribute: "id", Operator: op, Value: value}}}
	}
	both := id("starts_with", "tok")
	both.Conditions = append(both.Conditions, vault.Condition{Attribute: "container", Operator: "equals", Value: "/pii/"})
	for name, tt := range map[string]struct {
		rules []vault.AccessRule
		want  []string
	}{
		"a container":               {[]vault.AccessRule{given.Rule(1, "/pci/", vault.TransformReveal, "token:read")}, []string{"tok1", "tok0"}},
		"two containers":            {[]vault.AccessRule{given.Rule(1, "/pci/low/", vault.TransformReveal, "token:read"), given.Rule(2, "/pii/", vault.TransformRedact, "token:read")}, []string{"tok3", "tok2", "tok1"}},
		"everything":                {[]vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, "token:read")}, []string{"tok5", "tok4", "tok3", "tok2", "tok1", "tok0"}},
		"another permission":        {[]vault.AccessRule{given.Rule(1, "/pci/", vault.TransformReveal, "token:read"), given.Rule(2, "/", vault.TransformReveal, "token:use")}, []string{"tok1", "tok0"}},
		"an id":                     {[]vault.AccessRule{id("equals", "tok3")}, []string{"tok3"}},
		"a prefix of ids":           {[]vault.AccessRule{id("starts_with", "tok")}, []string{"tok5", "tok4", "tok3", "tok2", "tok1", "tok0"}},
		"conditions that are ANDed": {[]vault.AccessRule{both}, []string{"tok2"}},
		"nothing there":             {[]vault.AccessRule{given.Rule(1, "/none/", vault.TransformReveal, "token:read")}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := given.Private(t, v, tt.rules...)
			found, total := given.List(t, c, vault.ListTokensParams{})
			given.Same(t, "tokens", found, tt.want)
			given.Same(t, "total", total, len(tt.want))
			for i := range tt.want {
				found, total := given.List(t, c, vault.ListTokensParams{PageParams: vault.PageParams{Page: i + 1, Size: 1}})
				given.Same(t, "page", found, tt.want[i:i+1])
				given.Same(t, "total", total, len(tt.want))
			}
			given.Same(t, "AllTokens gives", collect(t, c.AllTokens(t.Context(), vault.ListTokensParams{}), tokenID), tt.want)
		})
	}
}

// Lists apply the transform of the access rules to each token.
func TestListTransforms(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, name := range []string{"open", "half", "shut"} {
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: name, Type: vault.TypeGeneric, Data: "secret", Containers: []string{"/" + name + "/"}, SearchIndexes: []string{"{{ data }}"}})
	}
	c := given.Private(t, v, given.Rule(1, "/open/", vault.TransformReveal, "token:read", "token:search"), given.Rule(2, "/half/", vault.TransformMask, "token:read", "token:search"),
		given.Rule(3, "/shut/", vault.TransformRedact, "token:read", "token:search"))
	listed := must.Get(c.ListTokens(t.Context(), vault.ListTokensParams{}))(t)
	found := must.Get(c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:secret"}))(t)
	byType := must.Get(c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "type:token"}))(t)
	shown := func(page *vault.Page[vault.Token]) map[string]string {
		got := map[string]string{}
		for _, tok := range page.Data {
			got[tok.ID] = string(tok.Data)
		}
		return got
	}
	all := map[string]string{"open": `"secret"`, "half": `"XXcret"`, "shut": ""}
	given.Same(t, "data of the list", shown(listed), all)
	given.Same(t, "data of a search", shown(byType), all)
	delete(all, "shut")
	given.Same(t, "data of a search over data", shown(found), all)
	given.Same(t, "a search over data counts", found.Pagination.TotalItems, 2)
}

// A client that sees no data, or a masked client, cannot find tokens by their data,
// because guesses would reveal it. That holds however the query is written, and if the
// client acts for a user or as an application.
func TestSearchOverRedactedDataIsForbidden(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "ssn", Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789", Metadata: map[string]string{"data": "x"}})
	app := given.Private(t, v, given.Rule(1, "/", vault.TransformReveal, "token:search"))
	redacted := given.Private(t, v, given.Rule(1, "/pii/", vault.TransformRedact, "token:search"))
	for name, c := range map[string]*vault.Client{
		"tenant": v.Owner.Masked(), "user": v.Owner.Masked().AsUser("x"), "application": app.Masked(), "redacted": redacted,
	} {
		for _, q := range []string{
			"data:6789", "NOT data:6789", `type:"card"data:"6789"`, "(data:6789)", "type:card OR (id:ssn AND data:6789)",
		} {
			after := func() error { return must.Err(c.ListTokensAfter(t.Context(), vault.SearchTokensParams{Query: q}, "")) }
			page := func() error { return must.Err(c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: q})) }
			for _, err := range []error{page(), after()} {
				must.Match(t, name+": "+q, err, vault.ErrForbidden)
			}
		}
		for _, q := range []string{"type:social_security_number", "metadata.data:x", `metadata."data":x`, `id:"data:1" OR id:ssn`} {
			given.Same(t, name+": "+q+" finds", search(t, c, q), []string{"ssn"})
		}
	}
}

// A page with too much data is refused, and the error names the remedy.
// Iterators read smaller pages instead.
func TestPagesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxPageBytes: 100_000})
	large := strings.Repeat("x", 30_000)
	var want []string
	for i := range 130 { // small tokens, large tokens, and a token larger than a page
		data := "small"
		switch {
		case i >= 40 && i < 50:
			data = large
		case i == 60:
			data = strings.Repeat(large, 10)
		}
		tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: data, Metadata: map[string]string{"large": fmt.Sprint(len(data) > 10)}})
		want = append([]string{tok.ID}, want...)
	}
	read := func(size int) map[string]error {
		p := vault.PageParams{Size: size}
		return map[string]error{
			"list":   must.Err(v.Private.ListTokens(t.Context(), vault.ListTokensParams{Metadata: map[string]string{"large": "true"}, PageParams: p})),
			"search": must.Err(v.Private.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "metadata.large:true", PageParams: p})),
		}
	}
	for name, err := range read(2) {
		given.WantFields(t, name, err, "size")
		if err != nil && !strings.Contains(err.Error(), "ask for fewer") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range read(1) {
		must.Match(t, name+" of one item", err, nil)
	}
	if _, err := v.Private.ListTokens(t.Context(), vault.ListTokensParams{Metadata: map[string]string{"large": "false"}, PageParams: vault.PageParams{Size: 100}}); err != nil {
		t.Errorf("small items: %v", err)
	}
	given.Same(t, "all tokens", collect(t, v.Private.AllTokens(t.Context(), vault.ListTokensParams{}), tokenID), want)
}

func TestPagesOfRecordsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxPageBytes: 30_000})
	for range 5 {
		must.Get(v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: strings.Repeat("/", 10_000), Configuration: map[string]string{}}))(t)
	}
	list := func(size int) error {
		return must.Err(v.Management.ListReactors(t.Context(), vault.ListParams{PageParams: vault.PageParams{Size: size}}))
	}
	given.WantFields(t, "five of 10 kB", list(5), "size")
	must.Match(t, "two of 10 kB", list(2), nil)
}

func search(t testing.TB, c *vault.Client, q string) []string {
	t.Helper()
	page, err := c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: q, PageParams: vault.PageParams{Size: 100}})
	if err != nil {
		t.Fatalf("search %s: %v", q, err)
	}
	given.Same(t, "search "+q, page.Pagination.TotalItems, len(page.Data))
	return given.IDs(page)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Private, vault.TokenParams{ID: "ssn", Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", Metadata: map[string]string{"user": "Jane Doe"}})
	v.Clock.Advance(24 * time.Hour)
	card := given.Create(t, v.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}, SearchIndexes: []string{"{{ data.number | last4 }}"}})
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: 1.5, SearchIndexes: []string{"{{ data }}"}, Containers: []string{"/a/b/", "/c/"}})
	v.Clock.Advance(time.Hour)
	given.Update(t, v.Private, "tok", `{"metadata":{"odd key":"*x:(y)"}}`)
	for q, want := range map[string][]string{
		"data:536-22-8726": {"ssn"}, "data:536228726": {"ssn"}, "data:8726": {"ssn"}, "data:4242": {"card"}, "data:1.5": {"tok"}, "data:87": {},
		`metadata.user:"jane DOE"`: {"ssn"}, "metadata.User:x": {}, `metadata."odd key":"*X:(y)"`: {"tok"},
		"type:card": {"card"}, "id:tok": {"tok"}, "fingerprint:" + card.Fingerprint: {"card"}, "fingerprint:nonsense": {},
		"container:/a/b/": {"tok"}, "container:/a/*": {"tok"}, "container:/A/": {}, "container:/c/": {"tok"}, "container:/p*": {"card", "ssn"},
		"created_at:2026-01-01": {"ssn"}, "created_at:[2026-01-02 TO *]": {"tok", "card"}, "modified_at:[* TO *]": {"tok"}, "-modified_at:2026-01-02": {"card", "ssn"},
		"created_by:" + v.Private.ApplicationID().String(): {"ssn"}, "modified_by:" + v.Private.ApplicationID().String(): {"tok"},
		"type:card OR type:token": {"tok", "card"}, "type:card AND data:8726": {}, "NOT type:card": {"tok", "ssn"}, "!(type:card OR id:tok)": {"ssn"}, "type:token metadata.none:x": {},
	} {
		given.Same(t, q+" finds", search(t, v.Private, q), want)
	}
}

func TestSearchRefusesBadQueries(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, q := range []string{"", "s3cr3t", "data:", "nope:s3cr3t", "(type:card", "type:card)", `data:"s3cr3t`, "created_at:s3cr3t", "container:s3cr3t", "created_by:s3cr3t", "id:s3cr3t*", strings.Repeat("x", 201), "data:\x00"} {
		_, err := v.Private.SearchTokens(t.Context(), vault.SearchTokensParams{Query: q})
		given.WantFields(t, q, err, "query")
		given.WantSilent(t, err, "s3cr3t")
	}
	var p vault.SearchTokensParams
	given.WantFields(t, "strict JSON", p.UnmarshalJSON([]byte(`{"query":7,"page":"1","limit":2}`)), "query", "page", "limit")
	must.Do(t, p.UnmarshalJSON([]byte(`{"query":"type:card","page":0}`)))
	given.WantFields(t, "page 0 when it is given", must.Err(v.Private.SearchTokens(t.Context(), p)), "page")
}

// dice generates random tokens, queries and rules.
type dice struct{ *rand.Rand }

func (d dice) pick(from ...string) string { return from[d.IntN(len(from))] }

var (
	someContainers = []string{"/", "/a/", "/a/b/", "/ab/", "/a/b/c/", "/x/"}
	someValues     = []string{"red", "Red", "GREEN", "two words", `qu"ote`, ""}
	someActors     = []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"}
)

// token creates a token and returns what a query sees of it.
func (d dice) token(t *testing.T, v *vaulttest.Vault, i int) *searched {
	t.Helper()
	v.Clock.Advance(time.Duration(d.IntN(40)) * time.Minute)
	doc := &searched{Metadata: map[string]string{}}
	for range d.IntN(3) {
		doc.Metadata[d.pick("color", "Color", "odd key")] = d.pick(someValues...)
	}
	for range d.IntN(3) {
		doc.Data = append(doc.Data, d.pick("one", "two", "three four", "5"))
	}
	p := vault.TokenParams{ID: fmt.Sprintf("%s-%03d", d.pick("a", "ab", "b"), i), Type: vault.TypeGeneric, Data: i, Metadata: doc.Metadata, SearchIndexes: append([]string{}, doc.Data...),
		Containers: []string{d.pick(someContainers...), d.pick(someContainers...)}}
	if d.IntN(2) == 0 {
		p.Type, p.Data = vault.TypeCardNumber, d.pick(given.Visa, given.Mastercard)
	}
	c := v.Owner.AsUser(d.pick(someActors...))
	tok := given.Create(t, c.Client, p)
	if d.IntN(3) == 0 {
		v.Clock.Advance(time.Duration(d.IntN(40)) * time.Minute)
		tok = given.Update(t, v.Owner.AsUser(d.pick(someActors...)).Client, tok.ID, `{"metadata":{"color":"red"}}`)
		doc.Metadata["color"] = "red"
		doc.ModifiedBy, doc.ModifiedAt = tok.ModifiedBy, tok.ModifiedAt
	}
	doc.ID, doc.Type, doc.Fingerprint, doc.Containers = tok.ID, string(tok.Type), tok.Fingerprint, tok.Containers
	doc.CreatedBy, doc.CreatedAt = tok.CreatedBy, tok.CreatedAt
	return doc
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func (d dice) moment() string {
	at := vaulttest.Start.Add(time.Duration(d.IntN(40*40)) * time.Minute)
	return at.Format(d.pick("2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05Z"))
}

func (d dice) term(docs []*searched) string {
	some := docs[d.IntN(len(docs))]
	switch d.IntN(9) {
	case 0:
		return "id:" + some.ID
	case 1:
		return "type:" + d.pick("token", "card_number", "card")
	case 2:
		return "data:" + quoted(d.pick("one", "two", "three four", "5", "none"))
	case 3:
		return "fingerprint:" + some.Fingerprint
	case 4:
		return "container:" + d.pick(append(someContainers, "/a*", "/a/b*", "/x/*", "/none/", "*")...)
	case 5:
		return "metadata." + d.pick("color", "Color", `"odd key"`, "none") + ":" + quoted(d.pick(someValues...))
	case 6:
		return d.pick("created_by:", "modified_by:") + d.pick(someActors...)
	case 7:
		return d.pick("created_at:", "modified_at:") + d.moment()
	default:
		return d.pick("created_at:", "modified_at:") + d.pick("[", "{") + d.pick("*", d.moment()) + " TO " + d.pick("*", d.moment()) + d.pick("]", "}")
	}
}

func (d dice) query(docs []*searched, depth int) string {
	if depth == 0 || d.IntN(3) == 0 {
		return d.term(docs)
	}
	switch d.IntN(4) {
	case 0:
		return d.query(docs, depth-1) + d.pick(" AND ", " ") + d.query(docs, depth-1)
	case 1:
		return d.query(docs, depth-1) + " OR " + d.query(docs, depth-1)
	case 2:
		return d.pick("NOT ", "-", "!") + "(" + d.query(docs, depth-1) + ")"
	default:
		return "(" + d.query(docs, depth-1) + ")"
	}
}

// rules generates access rules, in both forms.
func (d dice) rules() ([]vault.AccessRule, []access.Rule) {
	var rules []vault.AccessRule
	var same []access.Rule
	for i := range 1 + d.IntN(3) {
		shown := []access.Transform{access.Redact, access.Mask, access.Reveal}[d.IntN(3)]
		r := vault.AccessRule{Priority: i + 1, Transform: vault.Transform(shown.String()), Permissions: []vault.Permission{vault.Permission(d.pick("token:search", "token:search", "token:read"))}}
		if d.IntN(2) == 0 {
			r.Container = d.pick(someContainers...)
		} else {
			r.Conditions = []vault.Condition{{Attribute: "id", Operator: "starts_with", Value: d.pick("a", "ab", "b", "a-0")}}
			if d.IntN(2) == 0 {
				r.Conditions = append(r.Conditions, vault.Condition{Attribute: "container", Operator: d.pick("equals", "starts_with"), Value: d.pick(someContainers...)})
			}
		}
		a := access.Rule{Priority: r.Priority, Transform: shown, Permissions: []string{string(r.Permissions[0])}, Container: r.Container}
		for _, c := range r.Conditions {
			a.Conditions = append(a.Conditions, access.Condition{Attribute: access.Attribute(c.Attribute), Operator: access.Operator(c.Operator), Value: c.Value})
		}
		rules, same = append(rules, r), append(same, a)
	}
	rules = append(rules, given.Rule(9, "/x/", vault.TransformMask, "token:search")) // so that searching is never forbidden
	same = append(same, access.Rule{Priority: 9, Container: "/x/", Transform: access.Mask, Permissions: []string{"token:search"}})
	return rules, same
}

// A search finds exactly the tokens that its query and the client's rules select,
// token by token.
func TestSearchMatchesItsDefinition(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	var docs []*searched
	for i := range 40 {
		docs = append(docs, d.token(t, v, i))
	}
	type searcher struct {
		c     *vault.Client
		grant *access.Grant
	}
	searchers := []searcher{{v.Owner.Client, access.Unlimited()}}
	for range 4 {
		rules, same := d.rules()
		grant := must.Get(access.New(same, nil))(t)
		searchers = append(searchers, searcher{given.Private(t, v, rules...), grant})
	}
	found := 0
	for range 150 {
		q := d.query(docs, 3)
		asked := &terms{}
		cond, err := token.ParseQuery(q, asked)
		if err != nil {
			continue // too long, or a range that ends before it starts
		}
		s := searchers[d.IntN(len(searchers))]
		want := []string{}
		least := access.Redact
		if asked.asksData {
			least = access.Mask
		}
		for _, doc := range slices.Backward(docs) {
			shown, _ := s.grant.Decide(access.TokenSearch, doc.ID, doc.Containers)
			if shown >= least && matches(cond, doc) {
				want = append(want, doc.ID)
			}
		}
		got := search(t, s.c, q)
		given.Same(t, q+" finds", got, want)
		found += len(got)
	}
	if found == 0 {
		t.Error("no query found anything: the test proves nothing")
	}
}
