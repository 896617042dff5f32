package relay_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// breakouts are contents of tokens that end a string, a line, a record or an
// expression if they are inserted unchanged.
var breakouts = []string{
	`","admin":true,"x":"`, "\"}\n{\"admin\":true,\"x\":\"", "\"}\r\n\x1e{\"admin\":true}\n", `\`, `\"`, "}}", "{{ tok }}", "*/", "' + x + '",
	"\u2028\u2029\x00\x1e",
}

// fill replaces the expressions of a body by the value of the token tok.
func fill(t *testing.T, header http.Header, body string, tok jsonx.Value) (string, *form.Problems) {
	t.Helper()
	b, bad := relay.Scan(header, []byte(body))
	if bad != nil {
		return "", bad
	}
	out, bad := b.Fill(expr.Env{Lookup: func(ref expr.Ref) (jsonx.Value, bool) { return tok, ref.ID == "tok" }})
	return string(out), bad
}

func ofType(typ string) http.Header {
	if typ == "" {
		return http.Header{}
	}
	return http.Header{"Content-Type": {typ}}
}

// Types that contain JSON, by the separator of their texts.
var (
	documents = []string{"", "application/json", "application/json5", "application/x-json", "text/json", "text/x-json", "text/json; charset=utf-8",
		"application/jsonc", "application/x-amz-json-1.1", "application/vnd.api+json", "application/json, application/json", "json", "Application/JSON5"}
	lines = []string{"", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl", "application/x-jsonlines",
		"application/jsonlines", "application/json-lines", "application/x-json-lines", "text/jsonl", "application/x-ldjson", "application/stream+json",
		"application/x-json-stream", "application/vnd.acme+ndjson", "application/x-ndjson; charset=utf-8", "application/x-ndjson;;"}
	sequences = []string{"", "application/json-seq", "application/geo+json-seq"}
)

func TestValuesCannotBreakOutOfJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		types              []string
		before, after, sep string
		records            int
	}{
		{documents, "{\"a\" : 1.10,\r\n \"x\":", " , \"z\":[\"\\u0041\"]\t}\n", "", 1},
		{lines, "{\"a\" : 1.10}\r\n\n{\"x\":", " , \"z\":1}\r\n [\"\\u0041\"]", "\n", 3},
		{sequences, "\x1e{\"a\" : 1.10}\n\x1e{\n\"x\":", "\n}\n\x1e \x1e[\"\\u0041\"]\n", "\x1e", 3},
	} {
		for _, typ := range tt.types {
			for _, content := range breakouts {
				got, bad := fill(t, ofType(typ), tt.before+`"{{ tok }}"`+tt.after, jsonx.StringValue(content))
				if bad != nil {
					t.Errorf("%q: %v", typ, bad)
					continue
				}
				wantAround(t, typ, got, tt.before, tt.after)
				same := func(x any) bool {
					object, _ := x.(map[string]any)
					return object["x"] == content && len(object) <= 3
				}
				if all := texts(t, typ, got, tt.sep); len(all) != tt.records || !slices.ContainsFunc(all, same) {
					t.Errorf("%q: %q became %q", typ, content, got)
				}
			}
		}
	}
}

// wantAround compares the text around an expression.
func wantAround(t *testing.T, typ, got, before, after string) {
	t.Helper()
	if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
		t.Errorf("%q: the text around the expression has changed: %q", typ, got)
	}
}

// texts parses the JSON texts of a body as its receiver does.
func texts(t *testing.T, typ, body, sep string) (all []any) {
	t.Helper()
	pieces := []string{body}
	if sep != "" {
		pieces = strings.Split(body, sep)
	}
	for _, piece := range pieces {
		if strings.TrimSpace(piece) == "" {
			continue
		}
		var x any
		must.Match(t, fmt.Sprintf("%q: a piece as JSON", typ), json.Unmarshal([]byte(piece), &x), nil)
		all = append(all, x)
	}
	return all
}

// A value that is an object stays on its line.
func TestObjectsStayOnTheirLine(t *testing.T) {
	t.Parallel()
	tok := must.Get(jsonx.Parse([]byte("{\n \"a\": [\n1.10,\"\\n\"]\n}"), jsonx.Limits{}))(t)
	got, bad := fill(t, ofType("application/x-ndjson"), "\"{{ tok }}\"\n\"{{ tok }}!\"\n", tok)
	if want := "{\"a\":[1.10,\"\\n\"]}\n\"{\\\"a\\\":[1.10,\\\"\\\\n\\\"]}!\"\n"; bad != nil || got != want {
		t.Errorf("got %q (%v), want %q", got, bad, want)
	}
}

func TestInvalidJSONIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ typ, body, path string }{
		"JSON5, single quotes":      {"application/json5", `{'x':'{{ tok }}'}`, ""},
		"JSON5, a comment":          {"application/json5", "{/* {{ tok }} */}", ""},
		"JSON5, a bare name":        {"application/json5", `{x:"{{ tok }}"}`, ""},
		"a comma too many":          {"text/x-json", `{"x":"{{ tok }}",}`, ""},
		"outside of a string":       {"application/x-json", `{"x":{{ tok }}}`, "x"},
		"a byte order mark":         {"application/x-json", "\ufeff{\"x\":\"{{ tok }}\"}", ""},
		"a record over two lines":   {"application/x-ndjson", "1\n{\"x\":\n\"{{ tok }}\"}", "[1].x"},
		"two records on a line":     {"application/jsonl", `{"x":"{{ tok }}"} {"y":1}`, "[0]"},
		"a line that is not JSON":   {"application/jsonl", "\"{{ tok }}\"\n\n# comment", "[1]"},
		"a bad expression":          {"application/jsonl", "1\n{\"x\":[\"{{ tok | nope }}\"]}", "[1].x[0]"},
		"a key twice":               {"application/jsonl", "{\"x\":\"{{ tok }}\",\"x\":1}", "[0].x"},
		"a sequence without marks":  {"application/json-seq", `{"x":"{{ tok }}"}`, ""},
		"a sequence, half a record": {"application/json-seq", "\x1e{\"x\":\"{{ tok }}\"}\n\x1e{\"x\"", "[1].x"},
		"untyped, a key twice":      {"", `{"x":1,"x":"{{ tok }}"}`, "x"},
		"untyped, a mark":           {"", "\ufeff{\"x\":\"{{ tok }}\"}", ""},
		"untyped, half a sequence":  {"", "\x1e{\"x\":\"{{ tok }}\"", "[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, bad := fill(t, ofType(tt.typ), tt.body, jsonx.StringValue("x"))
			if bad == nil {
				t.Fatalf("became %q", got)
			}
			must.Same(t, "path", []string{tt.path}, slices.Collect(maps.Keys(bad.Fields)))
			without := strings.ReplaceAll(tt.body, "{{", "{ {")
			if got, bad := fill(t, ofType(tt.typ), without, jsonx.StringValue("x")); bad != nil || got != without {
				t.Errorf("without an expression it became %q (%v)", got, bad)
			}
		})
	}
}

// Text that no reader takes for JSON is treated as text.
func TestUntypedTextIsText(t *testing.T) {
	t.Parallel()
	const content = `a"b` + "\n"
	for _, body := range []string{"{{ tok }}", "n: {{ tok }}", "1\n{{ tok }}\n", "x='{{ tok }}'", "", "\xff{{ tok }}"} {
		want := strings.ReplaceAll(body, "{{ tok }}", content)
		if strings.HasPrefix(body, "\xff") {
			want = body
		}
		if got, bad := fill(t, http.Header{}, body, jsonx.StringValue(content)); bad != nil || got != want {
			t.Errorf("%q became %q (%v)", body, got, bad)
		}
	}
}

func TestPartsWithOtherJSONTypes(t *testing.T) {
	t.Parallel()
	header := ofType("multipart/form-data; boundary=XX")
	for typ, body := range map[string]string{"application/x-ndjson": "1\r\n{\"x\":%}", "application/json-seq": "\x1e{\"x\":%}\n", "text/x-json": `{"x":%}`, "": `{"x":%}`} {
		before, after, _ := strings.Cut("--XX\r\nContent-Type: "+typ+"\r\n\r\n"+body+"\r\n--XX--\r\n", "%")
		for _, content := range breakouts {
			got, bad := fill(t, header, before+`"{{ tok }}"`+after, jsonx.StringValue(content))
			wantAround(t, typ, got, before, after)
			var back string
			value := strings.TrimSuffix(strings.TrimPrefix(got, before), after)
			if err := json.Unmarshal([]byte(value), &back); bad != nil || err != nil || back != content {
				t.Errorf("%q: %q became %q (%v)", typ, content, got, bad)
			}
		}
		if got, bad := fill(t, header, before+`{{ tok }}`+after, jsonx.StringValue("x")); typ != "" && bad == nil {
			t.Errorf("%q: an expression outside of a string became %q", typ, got)
		}
	}
}
