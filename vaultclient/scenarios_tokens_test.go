package vaultclient_test

import (
	"context"
	"encoding/json"
	"errors"
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

func createTypes(w *world) {
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
			shown, err := w.private.Detokenize(ctx, "{{ "+tok.ID+" }}")
			w.saw("Detokenize", shown, err)
		}
	}
}

func createOptions(w *world) {
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
		tok, err := w.private.CreateToken(ctx, p)
		w.saw(fmt.Sprint("CreateToken ", i), tok, err)
	}
}

// createUnavailable creates a token while another program's transaction holds
// the write lock, and again afterwards.
func createUnavailable(w *world) {
	ctx, p := w.t.Context(), vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"}
	proxy := must.Get(w.management.CreateProxy(ctx, vault.ProxyParams{Name: "Echo", DestinationURL: w.dest.URL}))(w.t)
	tx := must.Get(w.DB.BeginTx(ctx, nil))(w.t)
	_, err := w.private.CreateToken(ctx, p)
	w.saw("CreateToken beside a transaction", nil, err)
	if !errors.Is(err, vault.ErrUnavailable) {
		w.t.Errorf("during a transaction: got %v, want ErrUnavailable", err)
	}
	_, err = w.management.GetProxy(ctx, proxy.ID)
	w.saw("GetProxy beside a transaction", nil, err)
	must.Do(w.t, tx.Rollback())
	tok, err := w.private.CreateToken(ctx, p)
	w.saw("CreateToken after it", tok, err)
}

func createInvalid(w *world) {
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
		tok, err := w.private.CreateToken(ctx, p)
		w.saw(fmt.Sprint("CreateToken ", i), tok, err)
	}
	tok, err := w.management.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: 1})
	w.saw("CreateToken by a management key", tok, err)
}

func createTaken(w *world) {
	for range 2 {
		tok, err := w.private.CreateToken(w.t.Context(), vault.TokenParams{ID: "taken", Type: vault.TypeGeneric, Data: 1})
		w.saw("CreateToken", tok, err)
	}
}

func createDuplicate(w *world) {
	p := vault.TokenParams{Type: vault.TypeCardNumber, Data: number, DeduplicateToken: ptr(true), Metadata: map[string]string{"a": "b"}}
	for _, c := range []vault.API{w.private, w.private, w.public} {
		tok, err := c.CreateToken(w.t.Context(), p)
		w.saw("CreateToken", tok, err)
	}
}

func getTransforms(w *world) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: number, CVC: "123"}, Metadata: map[string]string{"a": "b"}})
	w.token(vault.TokenParams{ID: "numbers", Type: vault.TypeGeneric, Data: vault.JSON(`{"z":1.10,"a":-0,"m":1E5}`)})
	for _, transform := range []vault.Transform{vault.TransformReveal, vault.TransformMask, vault.TransformRedact} {
		_, key := w.NewApplication(w.t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{
			{Priority: 1, Container: "/", Transform: transform, Permissions: []vault.Permission{"token:read"}}})
		for _, id := range []string{"card", "numbers"} {
			tok, err := w.as(key).GetToken(ctx, id)
			w.saw("GetToken "+string(transform), tok, err)
		}
	}
	_, narrow := w.NewApplication(w.t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{
		{Priority: 1, Container: "/pii/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}})
	tok, err := w.as(narrow).GetToken(ctx, "card")
	w.saw("GetToken outside of the rules", tok, err)
	tok, err = w.public.GetToken(ctx, "card")
	w.saw("GetToken by a public key", tok, err)
}

func getIDs(w *world) {
	for _, id := range []string{"umlaut-ü", "a b", "dots...", "comma,;@!$()*~"} {
		w.token(vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: 1})
	}
	for _, id := range []string{
		"umlaut-ü", "a b", "dots...", "comma,;@!$()*~", "", ".", "..", "search", "nobody", "a/b", "../applications", "%2e%2e",
		"x?y=1", "x#y", "x%zz", "\x00", "\xff", strings.Repeat("x", 401), strings.Repeat("ü", 5000),
		"../applications/key", `..\applications`, "..;/x", "ab", " nobody", "nobody ", "{{nobody}}", "a\r\nb",
	} {
		for _, c := range []vault.API{w.private, w.management} {
			tok, err := c.GetToken(w.t.Context(), id)
			w.saw(fmt.Sprintf("GetToken %.10q", id), tok, err)
		}
		tok, err := w.private.PatchToken(w.t.Context(), id, vault.JSON(`{"data":2}`))
		w.saw(fmt.Sprintf("PatchToken %.10q", id), tok, err)
		w.saw(fmt.Sprintf("DeleteToken %.10q", id), nil, w.private.DeleteToken(w.t.Context(), id))
	}
}

func getExpired(w *world) {
	w.token(vault.TokenParams{ID: "short", Type: vault.TypeGeneric, Data: 1, ExpiresAt: w.Clock.Now().Add(time.Minute)})
	for range 2 {
		tok, err := w.private.GetToken(w.t.Context(), "short")
		w.saw("GetToken", tok, err)
		w.Clock.Advance(time.Hour)
	}
}

func updatePatches(w *world) {
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
		tok, err := w.private.PatchToken(ctx, "doc", patch)
		w.saw(fmt.Sprint("PatchToken ", i), tok, err)
	}
	tok, err := w.private.GetToken(ctx, "doc")
	w.saw("GetToken", tok, err)
}

func updateRefused(w *world) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "doc", Type: vault.TypeGeneric, Data: "x"})
	for i, patch := range []any{
		nil, vault.JSON(nil), vault.JSON("["), vault.JSON(`"x"`), 7, make(chan int), vault.JSON(`{"data":null,"nope":1,"metadata":[]}`),
		vault.JSON(`{"mask":"{{ data }}"}`), vault.JSON(`{"containers":["bad"]}`),
	} {
		tok, err := w.private.PatchToken(ctx, "doc", patch)
		w.saw(fmt.Sprint("PatchToken ", i), tok, err)
	}
	tok, err := w.private.PatchToken(ctx, "nobody", vault.JSON(`{}`))
	w.saw("PatchToken of none", tok, err)
	tok, err = w.management.PatchToken(ctx, "doc", vault.JSON(`{}`))
	w.saw("PatchToken by a management key", tok, err)
}

func deleteTwice(w *world) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "gone", Type: vault.TypeGeneric, Data: "x"})
	w.saw("DeleteToken by a public key", nil, w.public.DeleteToken(ctx, "gone"))
	for range 2 {
		w.saw("DeleteToken", nil, w.private.DeleteToken(ctx, "gone"))
	}
	w.saw("DeleteToken", nil, w.private.DeleteToken(ctx, ""))
	tok, err := w.private.GetToken(ctx, "gone")
	w.saw("GetToken", tok, err)
}

// fill stores n tokens, each a moment after the previous one.
func (w *world) fill(n int) {
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

func listFilters(w *world) {
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
		page, err := w.private.ListTokens(w.t.Context(), p)
		w.saw(fmt.Sprint("ListTokens ", i), page, err)
	}
}

func listRefused(w *world) {
	for i, p := range []vault.ListTokensParams{
		{PageParams: vault.PageParams{Page: -1}}, {PageParams: vault.PageParams{Size: 101}}, {PageParams: vault.PageParams{Page: -1, Size: -1}},
		{IDs: make([]string, 1001)}, {IDs: []string{"\x00"}, Types: []vault.TokenType{"\x01"}},
	} {
		page, err := w.private.ListTokens(w.t.Context(), p)
		w.saw(fmt.Sprint("ListTokens ", i), page, err)
	}
	page, err := w.public.ListTokens(w.t.Context(), vault.ListTokensParams{})
	w.saw("ListTokens by a public key", page, err)
}

func allTokens(w *world) {
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

func allDeleting(w *world) {
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

func allRefused(w *world) {
	for tok, err := range w.private.AllTokens(w.t.Context(), vault.ListTokensParams{IDs: []string{"\x00"}}) {
		w.saw("AllTokens", tok, err)
	}
	canceled, cancel := context.WithCancel(w.t.Context())
	cancel()
	for _, err := range w.private.AllTokens(canceled, vault.ListTokensParams{}) {
		same(w.t, "after the context was canceled", problemOf(err).Kinds[0], "canceled")
	}
}

func searchQueries(w *world) {
	w.fill(12)
	w.token(vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726", Metadata: map[string]string{"user": "Jane Doe"}})
	for _, query := range []string{
		"", "type:token", `metadata.user:"jane doe"`, "data:8726", "id:tok-003 OR id:tok-004", "created_at:[2026-01-01 TO *] AND NOT type:card_number",
		"nope:1", "type:", "\x00", strings.Repeat("x", 300),
	} {
		page, err := w.private.SearchTokens(w.t.Context(), vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Size: 5}})
		w.saw(fmt.Sprintf("SearchTokens %.20q", query), page, err)
	}
	for _, p := range []vault.PageParams{{Page: 2, Size: 3}, {Page: -1}, {Size: 1000}, {Page: -1, Size: -1}} {
		page, err := w.private.SearchTokens(w.t.Context(), vault.SearchTokensParams{Query: "type:token", PageParams: p})
		w.saw("SearchTokens", page, err)
	}
	page, err := w.public.SearchTokens(w.t.Context(), vault.SearchTokensParams{Query: "type:token"})
	w.saw("SearchTokens by a public key", page, err)
}

func eraseTokens(w *world) {
	w.fill(12)
	byID, err := w.private.EraseTokens(w.t.Context(), vault.EraseParams{IDs: []string{"tok-001", "nobody"}, Reason: "case 1"})
	if err != nil {
		w.t.Fatal(err)
	}
	byID.ID = uuid.Nil
	w.saw("EraseTokens by id", byID, err)
	for _, query := range []string{"id:tok-003 OR id:tok-004", "type:token", "type:token"} {
		done, err := w.private.EraseTokens(w.t.Context(), vault.EraseParams{Query: query, Reason: "case 1"})
		if err != nil {
			w.t.Fatal(err)
		}
		done.ID = uuid.Nil
		w.saw("EraseTokens "+query, done, err)
	}
	page, err := w.private.ListTokens(w.t.Context(), vault.ListTokensParams{})
	w.saw("ListTokens", page, err)
}

func eraseRefused(w *world) {
	w.fill(3)
	for _, p := range []vault.EraseParams{{}, {Query: "type:token"}, {Reason: "x"}, {Query: "nope:1", Reason: "x"}, {Query: "type:token", Reason: strings.Repeat("x", 501)}, {IDs: []string{}, Reason: "x"}, {IDs: []string{"a"}, Query: "type:token", Reason: "x"}} {
		done, err := w.private.EraseTokens(w.t.Context(), p)
		w.saw("EraseTokens", done, err)
	}
	done, err := w.public.EraseTokens(w.t.Context(), vault.EraseParams{Query: "type:token", Reason: "x"})
	w.saw("EraseTokens by a public key", done, err)
}

func tokenizeDocuments(w *world) {
	for i, doc := range []any{
		map[string]any{"type": "card", "data": map[string]any{"number": number, "cvc": "123"}},
		vault.JSON(`{"z": "plain", "a": [1.10, null, {"type":"card_number","data":"4242424242424242","id":"my-card"}], "empty": {}}`),
		[]string{"one", "two"}, "text", 7, true, nil, json.RawMessage(nil), []byte(`[1]`), vault.CardData{Number: number},
	} {
		out, err := w.private.Tokenize(w.t.Context(), doc)
		w.saw(fmt.Sprint("Tokenize ", i), out, err)
	}
	page, err := w.private.ListTokens(w.t.Context(), vault.ListTokensParams{PageParams: vault.PageParams{Size: 100}})
	w.saw("ListTokens", page, err)
}

func tokenizeRefused(w *world) {
	for i, doc := range []any{
		vault.JSON(nil), vault.JSON(""), vault.JSON("{"), vault.JSON(`{"a":1,"a":2}`), make(chan int), math.NaN(),
		[]any{1, map[string]any{"type": "card", "data": map[string]any{"number": "1"}}, map[string]any{"type": "nope", "data": 1, "x": 2}},
		[]any{1, map[string]any{"type": "token", "data": 1, "id": "taken"}, map[string]any{"type": "token", "data": 1, "id": "taken"}},
		vault.JSON(strings.Repeat(" ", 6<<20)), vault.JSON(strings.Repeat("[", 300) + strings.Repeat("]", 300)),
	} {
		out, err := w.private.Tokenize(w.t.Context(), doc)
		w.saw(fmt.Sprint("Tokenize ", i), out, err)
	}
	out, err := w.management.Tokenize(w.t.Context(), "x")
	w.saw("Tokenize by a management key", out, err)
}

func detokenizeDocuments(w *world) {
	w.token(vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: number, CVC: "123"}, Metadata: map[string]string{"a": "b"}})
	w.token(vault.TokenParams{ID: "num", Type: vault.TypeGeneric, Data: vault.JSON(`{"z":1.10,"a":1e400}`)})
	for i, doc := range []any{
		"{{ card }}", "card {{ card | json: '$.number' | last4 }}", map[string]any{"b": "{{ num }}", "a": []string{"{{ card | json: '$.cvc' }}", "x"}},
		vault.JSON(` {"untouched" :  1.10 } `), json.RawMessage(` {"canonical" :  1.10 } `), []byte(` [ 1 ] `), 7, nil, "{{ token: card }}",
	} {
		out, err := w.private.Detokenize(w.t.Context(), doc)
		w.saw(fmt.Sprint("Detokenize ", i), out, err)
	}
}

func detokenizeRefused(w *world) {
	w.token(vault.TokenParams{ID: "num", Type: vault.TypeGeneric, Data: 1})
	for i, doc := range []any{"{{ nobody }}", "{{ num | nope }}", "{{", []string{"x", "{{ num | json: '$.x' }}"}, vault.JSON("{"), vault.JSON(nil)} {
		out, err := w.private.Detokenize(w.t.Context(), doc)
		w.saw(fmt.Sprint("Detokenize ", i), out, err)
	}
	out, err := w.public.Detokenize(w.t.Context(), "x")
	w.saw("Detokenize by a public key", out, err)
}
