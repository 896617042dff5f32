package vaultclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const number = "4242424242424242"

func ptr[T any](x T) *T { return &x }

func createTypes(w *apiVault) {
	ctx := w.t.Context()
	for i, p := range []vault.TokenParams{
		{Type: vault.TypeCard, Data: vault.CardData{Number: number, ExpirationMonth: 12, ExpirationYear: 2030, CVC: "123"}},
		{Type: vault.TypeBank, Data: vault.BankData{RoutingNumber: "021000021", AccountNumber: "00012345"}},
		{Type: vault.TypeCardNumber, Data: number},
		{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726"},
		{Type: vault.TypeGeneric, Data: "a <secret> & more \u2028 ü"},
		{Type: vault.TypeGeneric, Data: 12},
		{Type: vault.TypeGeneric, Data: false},
		{Type: vault.TypeGeneric, Data: vault.JSON(` {"b": 1.10, "a": 12345678901234567890, "c": [1e400, null, "\ud800"]} `)},
		{Type: vault.TypeGeneric, Data: json.RawMessage(`[1, 2]`)},
		{Type: vault.TypeGeneric, Data: []byte(`{"bytes": true}`)},
		{Type: vault.TypeGeneric, Data: map[string]any{"t": time.Unix(0, 0).UTC(), "f": 0.5, "html": "<&>"}},
	} {
		tok, err := w.private.CreateToken(ctx, p)
		w.saw(fmt.Sprint("CreateToken ", i), tok, err)
		if err == nil {
			w.see("Detokenize")(w.private.Detokenize(ctx, "{{ "+tok.ID+" }}"))
		}
	}
}

func createOptions(w *apiVault) {
	ctx := w.t.Context()
	for i, p := range []vault.TokenParams{
		{ID: "chosen", Type: vault.TypeGeneric, Data: "x", Mask: "<{{ data }}>", Containers: []string{"/A/b/", "/c/"}, Metadata: map[string]string{"k": "<v>"}},
		{ID: "{{ data | json: '$.name' }}", Type: vault.TypeGeneric, Data: map[string]string{"name": "evaluated", "a": "b"}},
		{Type: vault.TypeGeneric, Data: map[string]string{"a": "b"}, Mask: map[string]any{"a": "{{ data.a | reveal_last: 1 }}", "n": 1}},
		{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", SearchIndexes: []string{}},
		{Type: vault.TypeGeneric, Data: "x", SearchIndexes: []string{"{{ data | upcase }}"}, FingerprintExpression: "{{ data | downcase }}"},
		{Type: vault.TypeGeneric, Data: "x", ExpiresAt: w.Clock.Now().Add(time.Hour + 1234*time.Nanosecond)},
		{Type: vault.TypeGeneric, Data: "x", ExpiresAt: w.Clock.Now().Add(time.Hour).In(time.FixedZone("east", 3600))},
		{Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{}, Containers: []string{}},
	} {
		w.see(fmt.Sprint("CreateToken ", i))(w.private.CreateToken(ctx, p))
	}
}

// createUnavailable creates a token while another program's transaction holds
// the write lock, and again afterwards.
func createUnavailable(w *apiVault) {
	ctx, p := w.t.Context(), vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"}
	proxy := must.Get(w.management.CreateProxy(ctx, vault.ProxyParams{Name: "Echo", DestinationURL: w.dest.URL}))(w.t)
	tx := must.Get(w.DB.BeginTx(ctx, nil))(w.t)
	_, err := w.private.CreateToken(ctx, p)
	w.saw("CreateToken beside a transaction", nil, err)
	must.Match(w.t, "during a transaction", err, vault.ErrUnavailable)
	w.see("GetProxy beside a transaction")(w.management.GetProxy(ctx, proxy.ID))
	must.Do(w.t, tx.Rollback())
	w.see("CreateToken after it")(w.private.CreateToken(ctx, p))
}

func createInvalid(w *apiVault) {
	ctx := w.t.Context()
	for i, p := range []vault.TokenParams{
		{},
		{Type: "nope", Data: 1},
		{Type: vault.TypeGeneric},
		{Type: vault.TypeGeneric, Data: vault.JSON("null")},
		{Type: vault.TypeGeneric, Data: vault.JSON(`{"a":1,"a":2}`)},
		{Type: vault.TypeGeneric, Data: vault.JSON(`{"a":`)},
		{Type: vault.TypeGeneric, Data: vault.JSON(`1,"id":"injected"`)},
		{Type: vault.TypeGeneric, Data: math.Inf(1)},
		{Type: vault.TypeCard, Data: map[string]any{"number": "4242424242424241", "cvc": "1", "colour": "red"}},
		{ID: "a/b", Type: vault.TypeGeneric, Data: 1, Containers: []string{"x"}, Metadata: map[string]string{"k": "a\nb"}, Mask: "{{ data | nope }}"},
		{Type: vault.TypeGeneric, Data: 1, ExpiresAt: w.Clock.Now().Add(-time.Hour)},
		{Type: vault.TypeGeneric, Data: strings.Repeat("x", 6<<20)},
	} {
		w.see(fmt.Sprint("CreateToken ", i))(w.private.CreateToken(ctx, p))
	}
	w.see("CreateToken by a management key")(w.management.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: 1}))
}

func createTaken(w *apiVault) {
	for range 2 {
		w.see("CreateToken")(w.private.CreateToken(w.t.Context(), vault.TokenParams{ID: "taken", Type: vault.TypeGeneric, Data: 1}))
	}
}

func createDuplicate(w *apiVault) {
	p := vault.TokenParams{Type: vault.TypeCardNumber, Data: number, DeduplicateToken: ptr(true), Metadata: map[string]string{"a": "b"}}
	for _, c := range []vault.API{w.private, w.private, w.public} {
		w.see("CreateToken")(c.CreateToken(w.t.Context(), p))
	}
}

func getTransforms(w *apiVault) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: number, CVC: "123"}, Metadata: map[string]string{"a": "b"}})
	w.token(vault.TokenParams{ID: "numbers", Type: vault.TypeGeneric, Data: vault.JSON(`{"z":1.10,"a":-0,"m":1E5}`)})
	for _, transform := range []vault.Transform{vault.TransformReveal, vault.TransformMask, vault.TransformRedact} {
		_, key := w.NewApplication(w.t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{
			{Priority: 1, Container: "/", Transform: transform, Permissions: []vault.Permission{"token:read"}}})
		for _, id := range []string{"card", "numbers"} {
			w.see("GetToken " + string(transform))(w.as(key).GetToken(ctx, id))
		}
	}
	_, narrow := w.NewApplication(w.t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{
		{Priority: 1, Container: "/pii/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}})
	w.see("GetToken outside of the rules")(w.as(narrow).GetToken(ctx, "card"))
	w.see("GetToken by a public key")(w.public.GetToken(ctx, "card"))
}

func getIDs(w *apiVault) {
	for _, id := range []string{"umlaut-ü", "a b", "dots...", "comma,;@!$()*~"} {
		w.token(vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: 1})
	}
	for _, id := range []string{
		"umlaut-ü", "a b", "dots...", "comma,;@!$()*~", "", ".", "..", "search", "nobody", "a/b", "../applications", "%2e%2e",
		"x?y=1", "x#y", "x%zz", "\x00", "\xff", strings.Repeat("x", 401), strings.Repeat("ü", 5000),
		"../applications/key", `..\applications`, "..;/x", "ab", " nobody", "nobody ", "{{nobody}}", "a\r\nb",
	} {
		for _, c := range []vault.API{w.private, w.management} {
			w.see(fmt.Sprintf("GetToken %.10q", id))(c.GetToken(w.t.Context(), id))
		}
		w.see(fmt.Sprintf("PatchToken %.10q", id))(w.private.PatchToken(w.t.Context(), id, vault.JSON(`{"data":2}`)))
		w.saw(fmt.Sprintf("DeleteToken %.10q", id), nil, w.private.DeleteToken(w.t.Context(), id))
	}
}

func getExpired(w *apiVault) {
	w.token(vault.TokenParams{ID: "short", Type: vault.TypeGeneric, Data: 1, ExpiresAt: w.Clock.Now().Add(time.Minute)})
	for range 2 {
		w.see("GetToken")(w.private.GetToken(w.t.Context(), "short"))
		w.Clock.Advance(time.Hour)
	}
}

func updatePatches(w *apiVault) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "doc", Type: vault.TypeGeneric, Data: vault.JSON(`{"b":1.10,"a":"x"}`), Metadata: map[string]string{"k": "v"}, ExpiresAt: w.Clock.Now().Add(time.Hour)})
	w.Clock.Advance(time.Second)
	for i, patch := range []any{
		vault.JSON(`{"data": {"a": null, "c": 1e400}}`),
		map[string]any{"metadata": map[string]any{"k": nil}},
		json.RawMessage(`{"metadata":{"n":"1"},"expires_at":null}`),
		struct {
			Containers []string `json:"containers"`
		}{[]string{"/pii/"}},
		[]byte(`{}`),
		vault.JSON(`{"search_indexes":[],"mask":null}`),
	} {
		w.see(fmt.Sprint("PatchToken ", i))(w.private.PatchToken(ctx, "doc", patch))
	}
	w.see("GetToken")(w.private.GetToken(ctx, "doc"))
}

func updateRefused(w *apiVault) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "doc", Type: vault.TypeGeneric, Data: "x"})
	for i, patch := range []any{
		nil, vault.JSON(nil), vault.JSON("["), vault.JSON(`"x"`), 7, make(chan int), vault.JSON(`{"data":null,"nope":1,"metadata":[]}`),
		vault.JSON(`{"mask":"{{ data }}"}`), vault.JSON(`{"containers":["bad"]}`),
	} {
		w.see(fmt.Sprint("PatchToken ", i))(w.private.PatchToken(ctx, "doc", patch))
	}
	w.see("PatchToken of none")(w.private.PatchToken(ctx, "nobody", vault.JSON(`{}`)))
	w.see("PatchToken by a management key")(w.management.PatchToken(ctx, "doc", vault.JSON(`{}`)))
}

func deleteTwice(w *apiVault) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "gone", Type: vault.TypeGeneric, Data: "x"})
	w.saw("DeleteToken by a public key", nil, w.public.DeleteToken(ctx, "gone"))
	for range 2 {
		w.saw("DeleteToken", nil, w.private.DeleteToken(ctx, "gone"))
	}
	w.saw("DeleteToken", nil, w.private.DeleteToken(ctx, ""))
	w.see("GetToken")(w.private.GetToken(ctx, "gone"))
}

// fill stores n tokens, each a moment after the previous one.
func (w *apiVault) fill(n int) {
	w.t.Helper()
	for i := range n {
		typ, data := vault.TypeGeneric, any(fmt.Sprint("value ", i))
		if i%3 == 0 {
			typ, data = vault.TypeCardNumber, number
		}
		w.token(vault.TokenParams{ID: fmt.Sprintf("tok-%03d", i), Type: typ, Data: data, Metadata: map[string]string{"Mod[5]&=ü": fmt.Sprint("V ", i%5)}})
		if i%2 == 0 {
			w.Clock.Advance(time.Millisecond)
		}
	}
}

func listFilters(w *apiVault) {
	w.fill(25)
	for i, p := range []vault.ListTokensParams{
		{}, {PageParams: vault.PageParams{Page: 2}}, {PageParams: vault.PageParams{Page: 3, Size: 10}}, {PageParams: vault.PageParams{Page: 99}},
		{IDs: []string{"tok-001", "tok-024", "nobody", "a&b"}},
		{Types: []vault.TokenType{vault.TypeCardNumber}},
		{Types: []vault.TokenType{"nope"}},
		{Metadata: map[string]string{"Mod[5]&=ü": "v 3"}},
		{Metadata: map[string]string{"Mod[5]&=ü": "v 3"}, Types: []vault.TokenType{vault.TypeGeneric, vault.TypeCardNumber}, PageParams: vault.PageParams{Size: 2}},
		{Metadata: map[string]string{"other": ""}},
	} {
		w.see(fmt.Sprint("ListTokens ", i))(w.private.ListTokens(w.t.Context(), p))
	}
}

func listRefused(w *apiVault) {
	for i, p := range []vault.ListTokensParams{
		{PageParams: vault.PageParams{Page: -1}}, {PageParams: vault.PageParams{Size: 101}}, {PageParams: vault.PageParams{Page: -1, Size: -1}},
		{IDs: make([]string, 1001)}, {IDs: []string{"\x00"}, Types: []vault.TokenType{"\x01"}},
	} {
		w.see(fmt.Sprint("ListTokens ", i))(w.private.ListTokens(w.t.Context(), p))
	}
	w.see("ListTokens by a public key")(w.public.ListTokens(w.t.Context(), vault.ListTokensParams{}))
}

func allTokens(w *apiVault) {
	w.fill(230)
	for i, p := range []vault.ListTokensParams{
		{}, {Types: []vault.TokenType{vault.TypeCardNumber}}, {IDs: []string{"nobody"}},
	} {
		for tok, err := range w.private.AllTokens(w.t.Context(), p) {
			w.saw(fmt.Sprint("AllTokens ", i), tok, err)
		}
	}
	for tok, err := range w.private.AllTokens(w.t.Context(), vault.ListTokensParams{}) {
		w.saw("AllTokens, the first", tok, err)
		break
	}
}

func allDeleting(w *apiVault) {
	w.fill(230)
	for tok, err := range w.private.AllTokens(w.t.Context(), vault.ListTokensParams{}) {
		must.Do(w.t, err)
		w.saw("AllTokens "+tok.ID, nil, w.private.DeleteToken(w.t.Context(), tok.ID))
		w.Clock.Advance(time.Second)
		if len(w.records)%3 == 0 {
			w.token(vault.TokenParams{Type: vault.TypeGeneric, Data: "new"})
		}
	}
}

func allRefused(w *apiVault) {
	for tok, err := range w.private.AllTokens(w.t.Context(), vault.ListTokensParams{IDs: []string{"\x00"}}) {
		w.saw("AllTokens", tok, err)
	}
	canceled, cancel := context.WithCancel(w.t.Context())
	cancel()
	for _, err := range w.private.AllTokens(canceled, vault.ListTokensParams{}) {
		same(w.t, "after the context was canceled", problemOf(err).Kinds[0], "canceled")
	}
}

func searchQueries(w *apiVault) {
	w.fill(12)
	w.token(vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", Metadata: map[string]string{"user": "Jane Doe"}})
	for _, query := range []string{
		"", "type:token", `metadata.user:"jane doe"`, "data:8726", "id:tok-003 OR id:tok-004", "created_at:[2026-01-01 TO *] AND NOT type:card_number",
		"nope:1", "type:", "\x00", strings.Repeat("x", 300),
	} {
		w.see(fmt.Sprintf("SearchTokens %.20q", query))(w.private.SearchTokens(w.t.Context(), vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Size: 5}}))
	}
	for _, p := range []vault.PageParams{{Page: 2, Size: 3}, {Page: -1}, {Size: 1000}, {Page: -1, Size: -1}} {
		w.see("SearchTokens")(w.private.SearchTokens(w.t.Context(), vault.SearchTokensParams{Query: "type:token", PageParams: p}))
	}
	w.see("SearchTokens by a public key")(w.public.SearchTokens(w.t.Context(), vault.SearchTokensParams{Query: "type:token"}))
}

func eraseTokens(w *apiVault) {
	w.fill(12)
	byID, err := w.private.EraseTokens(w.t.Context(), vault.EraseParams{IDs: []string{"tok-001", "nobody"}, Reason: "case 1"})
	must.Do(w.t, err)
	byID.ID = uuid.Nil
	w.saw("EraseTokens by id", byID, err)
	for _, query := range []string{"id:tok-003 OR id:tok-004", "type:token", "type:token"} {
		done, err := w.private.EraseTokens(w.t.Context(), vault.EraseParams{Query: query, Reason: "case 1"})
		must.Do(w.t, err)
		done.ID = uuid.Nil
		w.saw("EraseTokens "+query, done, err)
	}
	w.see("ListTokens")(w.private.ListTokens(w.t.Context(), vault.ListTokensParams{}))
}

func eraseRefused(w *apiVault) {
	w.fill(3)
	for _, p := range []vault.EraseParams{{}, {Query: "type:token"}, {Reason: "x"}, {Query: "nope:1", Reason: "x"}, {Query: "type:token", Reason: strings.Repeat("x", 501)}, {IDs: []string{}, Reason: "x"}, {IDs: []string{"a"}, Query: "type:token", Reason: "x"}} {
		w.see("EraseTokens")(w.private.EraseTokens(w.t.Context(), p))
	}
	w.see("EraseTokens by a public key")(w.public.EraseTokens(w.t.Context(), vault.EraseParams{Query: "type:token", Reason: "x"}))
}

func tokenizeDocuments(w *apiVault) {
	for i, doc := range []any{
		map[string]any{"type": "card", "data": map[string]any{"number": number, "cvc": "123"}},
		vault.JSON(`{"z": "plain", "a": [1.10, null, {"type":"card_number","data":"4242424242424242","id":"my-card"}], "empty": {}}`),
		[]string{"one", "two"}, "text", 7, true, nil, json.RawMessage(nil), []byte(`[1]`), vault.CardData{Number: number},
	} {
		w.see(fmt.Sprint("Tokenize ", i))(w.private.Tokenize(w.t.Context(), doc))
	}
	w.see("ListTokens")(w.private.ListTokens(w.t.Context(), vault.ListTokensParams{PageParams: vault.PageParams{Size: 100}}))
}

func tokenizeRefused(w *apiVault) {
	for i, doc := range []any{
		vault.JSON(nil), vault.JSON(""), vault.JSON("{"), vault.JSON(`{"a":1,"a":2}`), make(chan int), math.NaN(),
		[]any{1, map[string]any{"type": "card", "data": map[string]any{"number": "1"}}, map[string]any{"type": "nope", "data": 1, "x": 2}},
		[]any{1, map[string]any{"type": "token", "data": 1, "id": "taken"}, map[string]any{"type": "token", "data": 1, "id": "taken"}},
		vault.JSON(strings.Repeat(" ", 6<<20)), vault.JSON(strings.Repeat("[", 300) + strings.Repeat("]", 300)),
	} {
		w.see(fmt.Sprint("Tokenize ", i))(w.private.Tokenize(w.t.Context(), doc))
	}
	w.see("Tokenize by a management key")(w.management.Tokenize(w.t.Context(), "x"))
}

func detokenizeDocuments(w *apiVault) {
	w.token(vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: number, CVC: "123"}, Metadata: map[string]string{"a": "b"}})
	w.token(vault.TokenParams{ID: "num", Type: vault.TypeGeneric, Data: vault.JSON(`{"z":1.10,"a":1e400}`)})
	for i, doc := range []any{
		"{{ card }}", "card {{ card | json: '$.number' | last4 }}", map[string]any{"b": "{{ num }}", "a": []string{"{{ card | json: '$.cvc' }}", "x"}},
		vault.JSON(` {"untouched" :  1.10 } `), json.RawMessage(` {"canonical" :  1.10 } `), []byte(` [ 1 ] `), 7, nil, "{{ token: card }}",
	} {
		w.see(fmt.Sprint("Detokenize ", i))(w.private.Detokenize(w.t.Context(), doc))
	}
}

func detokenizeRefused(w *apiVault) {
	w.token(vault.TokenParams{ID: "num", Type: vault.TypeGeneric, Data: 1})
	for i, doc := range []any{"{{ nobody }}", "{{ num | nope }}", "{{", []string{"x", "{{ num | json: '$.x' }}"}, vault.JSON("{"), vault.JSON(nil)} {
		w.see(fmt.Sprint("Detokenize ", i))(w.private.Detokenize(w.t.Context(), doc))
	}
	w.see("Detokenize by a public key")(w.public.Detokenize(w.t.Context(), "x"))
}
