package vaultclient_test

import (
	"fmt"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// cursorOf records a page by cursor, without the cursor, which differs
// between vaults.
func (w *apiVault) cursorOf(call string, page *vault.CursorPage[vault.Token], err error) (after string) {
	if err != nil {
		w.saw(call, page, err)
		return ""
	}
	after = page.Pagination.After
	page.Pagination.After = fmt.Sprint(after != "")
	w.saw(call, page, nil)
	return after
}

func listAfter(w *apiVault) {
	w.fill(25)
	for _, p := range []vault.ListTokensParams{
		{}, {Types: []vault.TokenType{vault.TypeCardNumber}}, {IDs: []string{"nobody"}}, {Metadata: map[string]string{"nobody": "x"}},
		{PageParams: vault.PageParams{Size: 5}}, {PageParams: vault.PageParams{Size: 25}}, {PageParams: vault.PageParams{Size: 24}},
	} {
		for after := w.listAfter(p, ""); after != ""; {
			after = w.listAfter(p, after)
		}
	}
}

func (w *apiVault) listAfter(p vault.ListTokensParams, after string) string {
	page, err := w.private.ListTokensAfter(w.t.Context(), p, after)
	return w.cursorOf("ListTokensAfter", page, err)
}

func (w *apiVault) searchAfter(p vault.SearchTokensParams, after string) string {
	page, err := w.private.ListTokensAfter(w.t.Context(), p, after)
	return w.cursorOf("ListTokensAfter of a search", page, err)
}

func listAfterRefused(w *apiVault) {
	w.fill(5)
	two := vault.PageParams{Size: 2}
	after := w.listAfter(vault.ListTokensParams{PageParams: two}, "")
	found := w.searchAfter(vault.SearchTokensParams{Query: "type:token", PageParams: two}, "")
	for _, start := range []string{"x", after + "A", after[1:], found} {
		w.listAfter(vault.ListTokensParams{}, start)
	}
	w.listAfter(vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCard}}, after)
	w.listAfter(vault.ListTokensParams{PageParams: vault.PageParams{Page: 2}}, "")
	w.listAfter(vault.ListTokensParams{PageParams: vault.PageParams{Size: 101}}, "")
	w.see("ListTokensAfter by a public key")(w.public.ListTokensAfter(w.t.Context(), vault.ListTokensParams{}, after))
}

func searchAfter(w *apiVault) {
	w.fill(25)
	for _, query := range []string{"type:token", "id:nobody", "NOT type:card"} {
		p := vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Size: 7}}
		for after := w.searchAfter(p, ""); after != ""; {
			after = w.searchAfter(p, after)
		}
	}
}

func searchAfterRefused(w *apiVault) {
	w.fill(5)
	two := vault.PageParams{Size: 2}
	after := w.searchAfter(vault.SearchTokensParams{Query: "type:token", PageParams: two}, "")
	w.searchAfter(vault.SearchTokensParams{Query: "type:token "}, after)
	w.searchAfter(vault.SearchTokensParams{Query: "nope:1"}, "")
	w.searchAfter(vault.SearchTokensParams{Query: "type:token", PageParams: vault.PageParams{Page: 1}}, "")
	w.see("ListTokensAfter of a search by a public key")(w.public.ListTokensAfter(w.t.Context(), vault.SearchTokensParams{Query: "type:token"}, ""))
}

func searchAll(w *apiVault) {
	w.fill(230)
	for _, query := range []string{"type:token", "type:card_number", "id:nobody", "nope:1"} {
		walked(w, "AllTokens of a search "+query, w.private.AllTokens(w.t.Context(), vault.SearchTokensParams{Query: query}))
	}
}

// walked records every item of an iterator.
func walked[T any](w *apiVault, call string, all iter.Seq2[*T, error]) {
	w.saw(call, nil, nil)
	for item, err := range all {
		w.saw(call, item, err)
	}
}

func allApplications(w *apiVault) {
	for range 105 {
		must.Get(w.Management.CreateApplication(w.t.Context(), w.shop()))(w.t)
	}
	first := must.Get(w.Management.CreateApplication(w.t.Context(), w.shop()))(w.t)
	for _, p := range []vault.ListApplicationsParams{
		{}, {Types: []vault.ApplicationType{vault.ApplicationManagement, vault.ApplicationPublic}}, {Name: "SHOP*"}, {Name: "x"},
		{IDs: []uuid.UUID{first.ID, nobody}}, {Types: []vault.ApplicationType{"other"}},
	} {
		walked(w, "AllApplications", w.management.AllApplications(w.t.Context(), p))
	}
	walked(w, "AllApplications by a private key", w.private.AllApplications(w.t.Context(), vault.ListApplicationsParams{}))
}

func allReactors(w *apiVault) {
	for i := range 105 {
		must.Get(w.Management.CreateReactor(w.t.Context(), vault.ReactorParams{
			Name: fmt.Sprint("r", i), Code: "module.exports = () => 1", Configuration: map[string]string{}}))(w.t)
	}
	for _, name := range []string{"", "R1*", "x"} {
		walked(w, "AllReactors "+name, w.management.AllReactors(w.t.Context(), vault.ListParams{Name: name}))
	}
}

func allProxies(w *apiVault) {
	for i := range 105 {
		must.Get(w.Management.CreateProxy(w.t.Context(), vault.ProxyParams{Name: fmt.Sprint("p", i), DestinationURL: "https://a.example"}))(w.t)
	}
	for _, name := range []string{"", "P1*", "x"} {
		walked(w, "AllProxies "+name, w.management.AllProxies(w.t.Context(), vault.ListParams{Name: name}))
	}
}

func allSessions(w *apiVault) {
	for range 105 {
		must.Get(w.Public.CreateSession(w.t.Context()))(w.t)
	}
	walked(w, "AllSessions", w.management.AllSessions(w.t.Context()))
}

func allLogs(w *apiVault) {
	w.fill(110)
	values := make([]int, 150)
	must.Get(w.Private.Tokenize(w.t.Context(), values))(w.t) // entries with the same time
	w.token(vault.TokenParams{Type: vault.TypeGeneric, Data: 1})
	for _, p := range []vault.ListLogsParams{
		{}, {EntityType: "card_number"}, {Operation: vault.OperationCreate}, {ActorID: w.Private.ApplicationID()},
		{ActorType: vault.ActorUser}, {EntityID: "\x00"},
	} {
		walked(w, "AllLogs", w.management.AllLogs(w.t.Context(), p))
	}
}
