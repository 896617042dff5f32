package vault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// An unknown token is reported where its expression stands, and who wrote a path
// into a token is told how.
func TestUnknownTokensHavePaths(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	card := create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: visa}}).ID
	failed := func(ids string) string { return "Failed to detokenize some tokens: " + ids }
	hint := func(expression string) string { return "did you mean `{{ " + expression + " }}`?" }
	for doc, want := range map[string]map[string][]string{
		`{"a":{"b":["x","{{ nobody }}"]},"c":"{{ ` + card + ` }}"}`: {"a.b[1]": {failed("nobody")}},
		`{"a":"{{ nobody }} and {{ no-one }}","b":"{{ nobody }}"}`:  {"a": {failed("nobody, no-one")}, "b": {failed("nobody")}},
		`"{{ nobody }}"`:                                  {"$": {failed("nobody")}},
		`{"n":"{{ ` + card + `.number }}"}`:               {"n": {failed(card + ".number"), hint(card + " | json: '$.number'")}},
		`{"n":"{{ ` + card + `.a.b_1 | last4 }}"}`:        {"n": {failed(card + ".a.b_1"), hint(card + " | json: '$.a.b_1'")}},
		`{"n":"{{ token: ` + card + `.metadata.user }}"}`: {"n": {failed(card + ".metadata.user"), hint("token: " + card + " | json: '$.metadata.user'")}},
		`{"n":"{{ a.b }} {{ nobody. }}"}`:                 {"n": {failed("a.b, nobody.")}},
	} {
		_, err := v.Private.Detokenize(t.Context(), vault.JSON(doc))
		var bad *vault.InvalidError
		if !errors.As(err, &bad) {
			t.Fatalf("%s: %v", doc, err)
		}
		same(t, doc, bad.Fields, want)
	}
	// What is suggested works, and a token whose id has a dot is found.
	dotted := create(t, v.Private, vault.TokenParams{ID: card + ".number", Type: vault.TypeGeneric, Data: "dotted"})
	out, err := v.Private.Detokenize(t.Context(), vault.JSON(fmt.Sprintf(`["{{ %s | json: '$.number' }}","{{ %s }}"]`, card, dotted.ID)))
	if err != nil || string(out) != `["`+visa+`","dotted"]` {
		t.Errorf("%v", err)
	}
}

// In arguments of a reactor and in bodies the path is theirs.
func TestUnknownTokensInRuns(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	r, err := v.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "1", Configuration: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	for path, args := range map[string]any{"args.card": map[string]any{"card": "{{ nobody }}"}, "args": "{{ nobody }}"} {
		_, err = v.Private.React(t.Context(), r.ID, vault.ReactParams{Args: args})
		wantFields(t, "now", err, path)
		_, err = v.Private.ReactAsync(t.Context(), r.ID, vault.ReactParams{Args: args, CallbackURL: "https://a.example/done"})
		wantFields(t, "later", err, path)
	}
	for typ, c := range map[string]struct{ body, path string }{
		"application/json":                  {`{"a":[{"b":"{{ nobody }}"}]}`, "a[0].b"},
		"application/x-www-form-urlencoded": {"a=1&b={{ nobody }}", "b"},
		"text/plain":                        {"it is {{ nobody }}", "$"},
	} {
		_, err := through(t, v.Private, typ, c.body)
		wantFields(t, typ, err, c.path)
	}
}

// An id that is taken names its place in the batch, and nothing is created.
func TestTakenIDsInABatch(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	create(t, v.Private, vault.TokenParams{ID: "taken", Type: vault.TypeGeneric, Data: 1})
	request := func(id string) map[string]any { return map[string]any{"type": "token", "data": "x", "id": id} }
	large := make([]any, 4000)
	for i := range large {
		large[i] = request(fmt.Sprint("tok-", i))
	}
	large[3711] = request("taken")
	for path, doc := range map[string]any{
		"[1].id":    []any{request("new"), request("taken")},
		"[2].id":    []any{request("twice"), 1, request("twice")},
		"[3711].id": large,
		"a.b[0].id": map[string]any{"a": map[string]any{"b": []any{request("taken")}}},
	} {
		_, err := v.Private.Tokenize(t.Context(), doc)
		var taken *vault.ConflictError
		if !errors.As(err, &taken) || !errors.Is(err, vault.ErrConflict) || errors.Is(err, vault.ErrInvalid) {
			t.Fatalf("%s: %v", path, err)
		}
		same(t, path, taken.Fields, map[string][]string{path: {"is the id of another token"}})
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name %s", err, path)
		}
	}
	_, err := v.Private.Tokenize(t.Context(), request("taken"))
	wantError(t, "a single token", err, vault.ErrConflict)
	if _, total := list(t, v.Private, vault.ListTokensParams{}); total != 1 {
		t.Errorf("%d tokens", total)
	}
}

// A mask cannot have tags: its text would be shown, not evaluated.
func TestMasksHaveNoTags(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]any{"a": "s3cr3t"}})
	for path, mask := range map[string]string{
		"mask":      `"{% if data.a %}x{% endif %}"`,
		"mask.a":    `{"a":"{{ data.a | last4 }} {%- raw %}"}`,
		"mask.b[1]": `{"b":["x","{%"]}`,
		"mask.c.d":  `{"c":{"d":"text {% comment %}"}}`,
	} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Mask: vault.JSON(mask)})
		wantFields(t, mask, err, path)
		_, err = v.Owner.PatchToken(t.Context(), tok.ID, vault.JSON(`{"mask":`+mask+`}`))
		wantFields(t, "patch "+mask, err, path)
	}
	create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "100 {% of it", Mask: "100 % {"})
}
