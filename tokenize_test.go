package vault_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func tokenize(t testing.TB, c *vault.Client, doc string) vault.JSON {
	t.Helper()
	out, err := c.Tokenize(t.Context(), vault.JSON(doc))
	if err != nil {
		t.Fatalf("tokenize %s: %v", doc, err)
	}
	return out
}

// The answer has the structure of the document, with ids in place of values.
func TestTokenizeKeepsTheStructure(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var walk func(doc, out any) any
	walk = func(doc, out any) any {
		switch doc := doc.(type) {
		case nil:
			return out
		case map[string]any:
			m, ok := out.(map[string]any)
			if !ok || len(m) != len(doc) {
				t.Errorf("%v became %v", doc, out)
				return nil
			}
			for k := range doc {
				m[k] = walk(doc[k], m[k])
			}
			return m
		case []any:
			a, ok := out.([]any)
			if !ok || len(a) != len(doc) {
				t.Errorf("%v became %v", doc, out)
				return nil
			}
			for i := range doc {
				a[i] = walk(doc[i], a[i])
			}
			return a
		default:
			id, _ := out.(string)
			if _, err := uuid.Parse(id); err != nil {
				t.Errorf("%v became %v, which is no id", doc, out)
				return nil
			}
			var value any
			if err := get(t, v.Tenant, id).Data.Decode(&value); err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	for _, doc := range []string{
		`"text"`, `1.5`, `true`, `null`, `[]`, `{}`, `""`,
		`["a","b","a",null,[],{}]`, `{"z":"1","a":{"y":[1,2,{"x":false}],"n":null}}`, `[[["deep"]]]`,
		`{"type":"card"}`, `{"data":"x"}`, `{"types":"card","data":"x"}`, `{"":"empty key"}`,
	} {
		var in, out any
		if err := vault.JSON(doc).Decode(&in); err != nil {
			t.Fatal(err)
		}
		if err := tokenize(t, v.Private, doc).Decode(&out); err != nil {
			t.Fatal(err)
		}
		same(t, doc, walk(in, out), in)
	}
	if got := string(tokenize(t, v.Private, `{"z":null,"a":null,"m":[null]}`)); got != `{"z":null,"a":null,"m":[null]}` {
		t.Errorf("the order of keys is not kept: %s", got)
	}
}

func TestTokenizeGoValues(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	out, err := v.Private.Tokenize(t.Context(), map[string]any{"name": "Jane"})
	if err != nil {
		t.Fatal(err)
	}
	wantData(t, "data", get(t, v.Tenant, field(t, out, "name")).Data, `"Jane"`)
	_, err = v.Private.Tokenize(t.Context(), nil)
	wantError(t, "nothing", err, vault.ErrInvalid)
}

// A token request takes what CreateToken takes, and becomes a token object.
func TestTokenizeRequests(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	out := tokenize(t, v.Private, `{"person":{"id":"jane","type":"token","data":"Jane Doe","mask":"{{ data | reveal_last: 3 }}","containers":["/pii/"],
		"metadata":{"k":"v"},"search_indexes":["{{ data }}"],"fingerprint_expression":"{{ data | downcase }}","expires_at":"1/1/2030"},"plain":7}`)
	var got struct {
		Person map[string]any
		Plain  string
	}
	if err := out.Decode(&got); err != nil {
		t.Fatal(err)
	}
	delete(got.Person, "fingerprint")
	same(t, "token object", got.Person, map[string]any{
		"id": "jane", "tenant_id": v.Acme.ID.String(), "type": "token", "data": "XXXXXDoe", "containers": []any{"/pii/"}, "metadata": map[string]any{"k": "v"},
		"search_indexes": []any{"{{ data }}"}, "fingerprint_expression": "{{ data | downcase }}", "expires_at": "2030-01-01T00:00:00Z",
		"created_by": v.Private.ApplicationID().String(), "created_at": "2026-01-01T12:00:00Z",
	})
	wantData(t, "data", get(t, v.Tenant, "jane").Data, `"Jane Doe"`)
	wantData(t, "plain data", get(t, v.Tenant, got.Plain).Data, `7`)
}

// A single card request shows its masked card under mask; everywhere else the
// masked data stands under data. The cvc is in neither.
func TestTokenizeCards(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	const request = `{"type":"card","data":{"number":"4242424242424242","expiration_month":7,"expiration_year":2031,"cvc":"987"}}`
	masked := map[string]any{"number": "XXXXXXXXXXXX4242", "expiration_month": 7.0, "expiration_year": 2031.0}
	var single map[string]any
	if err := tokenize(t, v.Private, request).Decode(&single); err != nil {
		t.Fatal(err)
	}
	same[any](t, "mask of a single request", single["mask"], masked)
	if _, there := single["data"]; there {
		t.Error("a single card request has data")
	}
	for _, doc := range []string{`[` + request + `]`, `{"a":{"b":[[` + request + `]]}}`} {
		out := tokenize(t, v.Private, doc)
		text := string(out)
		if strings.Contains(text, `"mask"`) || strings.Contains(text, "cvc") || strings.Contains(text, `"987"`) {
			t.Errorf("a nested card shows its mask or cvc: %s", text)
		}
		if !strings.Contains(text, `"data":{"number":"XXXXXXXXXXXX4242","expiration_month":7,"expiration_year":2031}`) {
			t.Errorf("a nested card does not show its masked data: %s", text)
		}
	}
	wantData(t, "data", get(t, v.Tenant, single["id"].(string)).Data, `{"number":"4242424242424242","expiration_month":7,"expiration_year":2031,"cvc":"987"}`)
	var bank map[string]any
	if err := tokenize(t, v.Private, `{"type":"bank","data":{"routing_number":"110000000","account_number":"123456789"}}`).Decode(&bank); err != nil {
		t.Fatal(err)
	}
	same[any](t, "data of a single bank request", bank["data"], map[string]any{"routing_number": "110000000", "account_number": "XXXXX6789"})
	var object map[string]any
	if err := tokenize(t, v.Private, `{"type":"token","data":{"a":"s3cr3t"}}`).Decode(&object); err != nil {
		t.Fatal(err)
	}
	if _, there := object["data"]; there {
		t.Error("data without a mask is shown")
	}
}

// All tokens are created, or none; errors name the paths.
func TestTokenizeIsAllOrNothing(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	create(t, v.Private, vault.TokenParams{ID: "taken", Type: vault.Generic, Data: "x"})
	for doc, fields := range map[string][]string{
		`["ok",{"type":"nope","data":"s3cr3t"}]`:                                                           {"[1].type"},
		`{"a":["ok",{"type":"card","data":{"number":"s3cr3t"}}]}`:                                          {"a[1].data.number"},
		`{"a":{"type":"token","data":"s3cr3t","colour":1}}`:                                                {"a.colour"},
		`{"type":"card","data":{"number":"s3cr3t","x":1},"y":2}`:                                           {"y"},
		`[{"type":"token","data":null},{"type":null,"data":1}]`:                                            {"[0].data", "[1].type"},
		`{"a":{"type":"token","data":"s3cr3t","id":"x"},"b":{"type":"token","data":"s3cr3t","mask":"{{"}}`: {"a.id", "b.mask"},
		`[["ok"],{"type":"token","data":{"n":"s3cr3t"},"id":"{{ data.missing }}"}]`:                        {"[1].id"},
		`{"a":"ok","a":"s3cr3t"}`:                                                                          {"a"},
		`["ok"`:                                                                                            {""},
		`{"type":"token","data":"s3cr3t","search_indexes":["{{ data.x }}"]}`:                               {"search_indexes[0]"},
	} {
		_, err := v.Private.Tokenize(t.Context(), vault.JSON(doc))
		wantFields(t, doc, err, fields...)
		wantSilent(t, err, "s3cr3t", `"ok"`)
	}
	for _, doc := range []string{
		`["ok",{"type":"token","data":"x","id":"taken"}]`,
		`["ok",{"type":"token","data":"x","id":"twice"},{"type":"token","data":"y","id":"twice"}]`,
	} {
		_, err := v.Private.Tokenize(t.Context(), vault.JSON(doc))
		wantError(t, doc, err, vault.ErrConflict)
	}
	only := private(t, v, rule(1, "/general/", vault.Reveal, everything...))
	_, err := only.Tokenize(t.Context(), vault.JSON(`["ok",{"type":"card","data":{"number":"4242424242424242"}}]`))
	wantError(t, "a container without the permission", err, vault.ErrForbidden)
	if found, total := list(t, v.Tenant, vault.ListTokensParams{}); total != 1 {
		t.Errorf("tokens were left behind: %v", found)
	}
	same(t, "log entries of creation", len(entries(t, v, vault.ListLogsParams{EntityType: "token"})), 2) // the creation and the list
	tokenize(t, only, `["ok",{"type":"token","data":"x","containers":["/general/low/"]}]`)
}

// Values that are equal become one token where tokens are deduplicated.
func TestTokenizeDeduplicates(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	existing := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: "old"})
	const request = `{"type":"token","data":"new","deduplicate_token":true}`
	out := tokenize(t, v.Private, `{"a":`+request+`,"b":`+request+`,"c":{"type":"token","data":"old","deduplicate_token":true},"d":"new"}`)
	same(t, "equal values", field(t, out, "a.id"), field(t, out, "b.id"))
	same(t, "an existing value", field(t, out, "c.id"), existing.ID)
	if field(t, out, "d") == field(t, out, "a.id") {
		t.Error("a plain value was deduplicated without being asked")
	}
	_, total := list(t, v.Private, vault.ListTokensParams{})
	same(t, "tokens", total, 3)
	same(t, "the same document again", field(t, tokenize(t, v.Private, request), "id"), field(t, out, "a.id"))
}

// Tokens of one document stand in lists in the order of the document.
func TestTokenizeOrder(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var want []string
	if err := tokenize(t, v.Private, `["1","2","3","4","5","6","7","8"]`).Decode(&want); err != nil {
		t.Fatal(err)
	}
	found, _ := list(t, v.Private, vault.ListTokensParams{})
	for i := range want {
		if found[len(found)-1-i] != want[i] {
			t.Fatalf("listed as %v, made as %v", found, want)
		}
	}
}

// A thousand values go in one batch, each with its log entry.
func TestTokenizeManyValues(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	out := tokenize(t, v.Private, `[`+strings.Repeat(`"x",`, 999)+`"x"]`)
	var all []string
	if err := out.Decode(&all); err != nil {
		t.Fatal(err)
	}
	distinct := map[string]bool{}
	for _, id := range all {
		distinct[id] = true
	}
	same(t, "distinct ids", len(distinct), 1000)
	_, total := list(t, v.Private, vault.ListTokensParams{PageParams: vault.PageParams{Size: 1}})
	same(t, "tokens", total, 1000)
	page, err := v.Tenant.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token", PageParams: vault.PageParams{Size: 1}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log entries", page.Pagination.TotalItems, 1001) // with the read of the one that was listed
}
