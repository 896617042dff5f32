package vault_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/query"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func search(t testing.TB, c *vault.Client, q string) []string {
	t.Helper()
	page, err := c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: q, PageParams: vault.PageParams{Size: 100}})
	if err != nil {
		t.Fatalf("search %s: %v", q, err)
	}
	if page.Pagination.TotalItems != len(page.Data) {
		t.Errorf("search %s: %d items, total %d", q, len(page.Data), page.Pagination.TotalItems)
	}
	return ids(page)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	create(t, v.Private, vault.TokenParams{ID: "ssn", Type: vault.SocialSecurityNumber, Data: "536-22-8726", Metadata: map[string]string{"user": "Jane Doe"}})
	v.Clock.Advance(24 * time.Hour)
	card := create(t, v.Tenant, vault.TokenParams{ID: "card", Type: vault.Card, Data: vault.CardData{Number: visa}, SearchIndexes: []string{"{{ data.number | last4 }}"}})
	create(t, v.Tenant, vault.TokenParams{ID: "tok", Type: vault.Generic, Data: 1.5, SearchIndexes: []string{"{{ data }}"}, Containers: []string{"/a/b/", "/c/"}})
	v.Clock.Advance(time.Hour)
	update(t, v.Private, "tok", `{"metadata":{"odd key":"*x:(y)"}}`)
	for q, want := range map[string][]string{
		"data:536-22-8726": {"ssn"}, "data:536228726": {"ssn"}, "data:8726": {"ssn"}, "data:4242": {"card"}, "data:1.5": {"tok"}, "data:87": {},
		`metadata.user:"jane DOE"`: {"ssn"}, "metadata.User:x": {}, `metadata."odd key":"*X:(y)"`: {"tok"},
		"type:card": {"card"}, "id:tok": {"tok"}, "fingerprint:" + card.Fingerprint: {"card"}, "fingerprint:nonsense": {},
		"container:/a/b/": {"tok"}, "container:/a/*": {"tok"}, "container:/A/": {}, "container:/c/": {"tok"}, "container:/p*": {"card", "ssn"},
		"created_at:2026-01-01": {"ssn"}, "created_at:[2026-01-02 TO *]": {"tok", "card"}, "modified_at:[* TO *]": {"tok"}, "-modified_at:2026-01-02": {"card", "ssn"},
		"created_by:" + v.Private.ApplicationID().String(): {"ssn"}, "modified_by:" + v.Private.ApplicationID().String(): {"tok"},
		"type:card OR type:token": {"tok", "card"}, "type:card AND data:8726": {}, "NOT type:card": {"tok", "ssn"}, "!(type:card OR id:tok)": {"ssn"}, "type:token metadata.none:x": {},
	} {
		if got := search(t, v.Private, q); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", q, got, want)
		}
	}
}

func TestSearchRefusesBadQueries(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, q := range []string{"", "s3cr3t", "data:", "nope:s3cr3t", "(type:card", "type:card)", `data:"s3cr3t`, "created_at:s3cr3t", "container:s3cr3t", "created_by:s3cr3t", "id:s3cr3t*", strings.Repeat("x", 201), "data:\x00"} {
		_, err := v.Private.SearchTokens(t.Context(), vault.SearchTokensParams{Query: q})
		wantFields(t, q, err, "query")
		wantSilent(t, err, "s3cr3t")
	}
	var p vault.SearchTokensParams
	wantFields(t, "strict JSON", p.UnmarshalJSON([]byte(`{"query":7,"page":"1","limit":2}`)), "query", "page", "limit")
	if err := p.UnmarshalJSON([]byte(`{"query":"type:card","page":0}`)); err != nil {
		t.Fatal(err)
	}
	_, err := v.Private.SearchTokens(t.Context(), p)
	wantFields(t, "page 0 when it is given", err, "page")
}

// A search finds tokens as they are now.
func TestSearchFollowsChanges(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Tenant, vault.TokenParams{Type: vault.Generic, Data: "first", SearchIndexes: []string{"{{ data }}"}, Metadata: map[string]string{"k": "a"}})
	update(t, v.Tenant, tok.ID, `{"data":"second","metadata":{"k":"b"}}`)
	for q, want := range map[string]int{"data:first": 0, "data:second": 1, "metadata.k:a": 0, "metadata.k:b": 1} {
		same(t, q, len(search(t, v.Tenant, q)), want)
	}
	if err := v.Tenant.DeleteToken(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	same(t, "after deletion", len(search(t, v.Tenant, "data:second OR metadata.k:b OR type:token")), 0)
}

// dice makes tokens, queries and rules at random.
type dice struct{ *rand.Rand }

func (d dice) pick(from ...string) string { return from[d.IntN(len(from))] }

var (
	someContainers = []string{"/", "/a/", "/a/b/", "/ab/", "/a/b/c/", "/x/"}
	someValues     = []string{"red", "Red", "GREEN", "two words", `qu"ote`, ""}
	someActors     = []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"}
)

// token makes a token and what a query sees of it.
func (d dice) token(t *testing.T, v *vaulttest.Vault, i int) *query.Doc {
	t.Helper()
	v.Clock.Advance(time.Duration(d.IntN(40)) * time.Minute)
	doc := &query.Doc{Metadata: map[string]string{}}
	for range d.IntN(3) {
		doc.Metadata[d.pick("color", "Color", "odd key")] = d.pick(someValues...)
	}
	for range d.IntN(3) {
		doc.Data = append(doc.Data, d.pick("one", "two", "three four", "5"))
	}
	p := vault.TokenParams{ID: fmt.Sprintf("%s-%03d", d.pick("a", "ab", "b"), i), Type: vault.Generic, Data: i, Metadata: doc.Metadata, SearchIndexes: append([]string{}, doc.Data...),
		Containers: []string{d.pick(someContainers...), d.pick(someContainers...)}}
	if d.IntN(2) == 0 {
		p.Type, p.Data = vault.CardNumber, d.pick(visa, mastercard)
	}
	c := v.Tenant.AsUser(uuid.MustParse(d.pick(someActors...)))
	tok := create(t, c, p)
	if d.IntN(3) == 0 {
		v.Clock.Advance(time.Duration(d.IntN(40)) * time.Minute)
		tok = update(t, v.Tenant.AsUser(uuid.MustParse(d.pick(someActors...))), tok.ID, `{"metadata":{"color":"red"}}`)
		doc.Metadata["color"] = "red"
		doc.ModifiedBy, doc.ModifiedAt = *tok.ModifiedBy, *tok.ModifiedAt
	}
	doc.ID, doc.Type, doc.Fingerprint, doc.Containers = tok.ID, string(tok.Type), tok.Fingerprint, tok.Containers
	doc.CreatedBy, doc.CreatedAt = *tok.CreatedBy, *tok.CreatedAt
	return doc
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func (d dice) moment() string {
	at := vaulttest.Start.Add(time.Duration(d.IntN(40*40)) * time.Minute)
	return at.Format(d.pick("2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05Z"))
}

func (d dice) term(docs []*query.Doc) string {
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

func (d dice) query(docs []*query.Doc, depth int) string {
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

// rules makes up access rules, in both forms.
func (d dice) rules() ([]vault.AccessRule, []access.Rule) {
	var rules []vault.AccessRule
	var same []access.Rule
	for i := range 1 + d.IntN(3) {
		r := vault.AccessRule{Priority: i + 1, Transform: vault.Mask, Permissions: []string{d.pick("token:search", "token:search", "token:read")}}
		if d.IntN(2) == 0 {
			r.Container = d.pick(someContainers...)
		} else {
			r.Conditions = []vault.Condition{{Attribute: "id", Operator: "starts_with", Value: d.pick("a", "ab", "b", "a-0")}}
			if d.IntN(2) == 0 {
				r.Conditions = append(r.Conditions, vault.Condition{Attribute: "container", Operator: d.pick("equals", "starts_with"), Value: d.pick(someContainers...)})
			}
		}
		a := access.Rule{Priority: r.Priority, Transform: access.Mask, Permissions: r.Permissions, Container: r.Container}
		for _, c := range r.Conditions {
			a.Conditions = append(a.Conditions, access.Condition{Attribute: access.Attribute(c.Attribute), Operator: access.Operator(c.Operator), Value: c.Value})
		}
		rules, same = append(rules, r), append(same, a)
	}
	rules = append(rules, rule(9, "/x/", vault.Redact, "token:search")) // so that searching is never forbidden
	same = append(same, access.Rule{Priority: 9, Container: "/x/", Transform: access.Redact, Permissions: []string{"token:search"}})
	return rules, same
}

// What a search finds is what the meaning of its query and the client's rules
// say, token by token.
func TestSearchAgreesWithItsMeaning(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	var docs []*query.Doc
	for i := range 40 {
		docs = append(docs, d.token(t, v, i))
	}
	type searcher struct {
		c     *vault.Client
		grant *access.Grant
	}
	searchers := []searcher{{v.Tenant, access.Unlimited()}}
	for range 4 {
		rules, same := d.rules()
		grant, err := access.New(same, nil)
		if err != nil {
			t.Fatal(err)
		}
		searchers = append(searchers, searcher{private(t, v, rules...), grant})
	}
	found := 0
	for range 150 {
		q := d.query(docs, 3)
		node, err := query.Parse(q)
		if err != nil {
			continue // too long, or a range that ends before it starts
		}
		s := searchers[d.IntN(len(searchers))]
		var want []string
		for _, doc := range slices.Backward(docs) {
			if _, ok := s.grant.Decide(access.TokenSearch, doc.ID, doc.Containers); ok && query.Match(node, doc) {
				want = append(want, doc.ID)
			}
		}
		got := search(t, s.c, q)
		if !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", q, got, want)
		}
		found += len(got)
	}
	if found == 0 {
		t.Error("no query found anything: the test proves nothing")
	}
}
