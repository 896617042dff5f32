package vault_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
)

// TestParamsSurviveTheirJSONForm writes parameters and reads them back: what
// comes over HTTP is what was given.
func TestParamsSurviveTheirJSONForm(t *testing.T) {
	t.Parallel()
	yes := true
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	for want, given := range map[string]vault.TokenParams{
		`{}`: {},
		`{"id":"a","type":"card","data":{"number":"4242"},"mask":"<{{ data }}>","containers":["/a/"],"metadata":{"k":"v"},` +
			`"search_indexes":["x"],"fingerprint_expression":"{{ data }}","deduplicate_token":true,"expires_at":"2030-01-02T03:04:05.000006Z"}`: {
			ID: "a", Type: vault.Card, Data: vault.CardData{Number: "4242"}, Mask: "<{{ data }}>", Containers: []string{"/a/"},
			Metadata: map[string]string{"k": "v"}, SearchIndexes: []string{"x"}, FingerprintExpression: "{{ data }}",
			DeduplicateToken: &yes, ExpiresAt: &at},
		`{"data":{"b":1e400,"a":1.10},"containers":[],"metadata":{},"search_indexes":[]}`: {
			Data: vault.JSON(`{"b": 1e400, "a": 1.10}`), Containers: []string{}, Metadata: map[string]string{}, SearchIndexes: []string{}},
		`{"data":null}`: {Data: json.RawMessage(nil)},
	} {
		wantJSON(t, given, want)
		var read vault.TokenParams
		if err := read.UnmarshalJSON([]byte(want)); err != nil {
			t.Fatal(err)
		}
		given.Data, read.Data, given.Mask, read.Mask = nil, nil, nil, nil // compared as text above
		if diff := cmp.Diff(given, read); diff != "" {
			t.Errorf("%s (given -, read +): %s", want, diff)
		}
	}
	wantJSON(t, vault.TokenParams{ExpiresAt: &time.Time{}}, `{}`)
	wantJSON(t, vault.SearchTokensParams{Query: "a:b"}, `{"query":"a:b"}`)
	wantJSON(t, vault.SearchTokensParams{PageParams: vault.PageParams{Page: 2, Size: -3}}, `{"page":2,"size":-3}`)
	wantJSON(t, vault.ReactParams{}, `{}`)
	wantJSON(t, vault.ReactParams{Args: []byte(`{"a": 1}`), CallbackURL: "https://x", TimeoutMS: 10, TraceHeader: "T", TraceID: "t"},
		`{"args":{"a":1},"callback_url":"https://x","timeout_ms":10}`)
}

func wantJSON(t *testing.T, given json.Marshaler, want string) {
	t.Helper()
	text, err := given.MarshalJSON()
	if err != nil || string(text) != want {
		t.Errorf("%T is written as %s, %v, want %s", given, text, err, want)
	}
}

// TestParamsThatAreNotJSON finds that raw JSON is checked before it becomes a
// part of something larger, where it could pass for other fields.
func TestParamsThatAreNotJSON(t *testing.T) {
	t.Parallel()
	for field, given := range map[string]json.Marshaler{
		"data": vault.TokenParams{Type: vault.Generic, Data: vault.JSON(`1,"id":"chosen"`)},
		"mask": vault.TokenParams{Type: vault.Generic, Data: 1, Mask: math.NaN()},
		"args": vault.ReactParams{Args: json.RawMessage(`}`)},
	} {
		_, err := given.MarshalJSON()
		wantFields(t, field, err, field)
	}
}

func TestEncodeJSON(t *testing.T) {
	t.Parallel()
	for want, given := range map[string]any{
		"null": nil, `"<a>"`: "<a>", `{"a":1.10}`: vault.JSON(` { "a" : 1.10 } `), "1e400": json.RawMessage("1e400"), "[1]": []byte("[1]"),
	} {
		if got, err := vault.EncodeJSON(given); err != nil || string(got) != want {
			t.Errorf("%v is %s, %v, want %s", given, got, err, want)
		}
	}
	for _, given := range []any{make(chan int), vault.JSON("{"), vault.JSON(nil)} {
		if _, err := vault.EncodeJSON(given); !errors.Is(err, vault.ErrInvalid) {
			t.Errorf("%T: %v", given, err)
		}
	}
}
