package jsonx_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func mustParse(t testing.TB, text string) jsonx.Value {
	t.Helper()
	v, err := jsonx.Parse([]byte(text), jsonx.Limits{})
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return v
}

func TestParseKeepsEverything(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`null`, `true`, `false`, `0`, `-0`, `1.10`, `1e400`, `-1E-7`, `12345678901234567890`,
		`""`, `"a"`, `"ä€😀"`, `"\""`, `"\\"`, `"\n\r\t\b\f"`, `"\u0000\u001f"`, `"/"`,
		`"\ud800"`, `"\udfff"`, `"x\ud83dy"`, `"\ude00\ud83d"`, `{"\udc00":1}`,
		`[]`, `{}`, `[[],{}]`, `{"z":1,"a":2,"m":[1,2,{"k":null}]}`, `{"":{"":""}}`,
	} {
		got := string(mustParse(t, text).Append(nil))
		must.Same(t, "Parse", text, got)
	}
}

func TestParseNormalizesOnlyTheForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" {\t\"a\" :\r[ 1 , 2 ]\n} ": `{"a":[1,2]}`,
		`"\u0041\/\u00e4"`:           `"A/ä"`,
		`"\ud83d\ude00"`:             `"😀"`,
		`"\u2028<&>"`:                "\"\u2028<&>\"",
		`"\uD83D\u0041"`:             `"\ud83dA"`,
	} {
		must.Same(t, "Parse("+text+") wrote", want, string(mustParse(t, text).Append(nil)))
	}
}

func TestInvalidTextIsRejected(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       jsonx.Error
	}{
		{"nothing", ``, jsonx.Error{Offset: 0, Msg: "ends where a JSON value is expected"}},
		{"only space", ` `, jsonx.Error{Offset: 1, Msg: "ends where a JSON value is expected"}},
		{"trailing", `1 2`, jsonx.Error{Offset: 2, Msg: "has text after the JSON value"}},
		{"trailing brace", `{}}`, jsonx.Error{Offset: 2, Msg: "has text after the JSON value"}},
		{"bare word", `{"a":nul}`, jsonx.Error{Path: "a", Offset: 5, Msg: "is not valid JSON: expected a value"}},
		{"leading zero", `[1,01]`, jsonx.Error{Path: "[1]", Offset: 3, Msg: "is not valid JSON: expected a value"}},
		{"plus", `+1`, jsonx.Error{Msg: "is not valid JSON: expected a value"}},
		{"no fraction", `1.`, jsonx.Error{Msg: "is not valid JSON: expected a value"}},
		{"no exponent", `1e`, jsonx.Error{Msg: "is not valid JSON: expected a value"}},
		{"trailing comma", `[1,]`, jsonx.Error{Path: "[1]", Offset: 3, Msg: "is not valid JSON: expected a value"}},
		{"object comma", `{"a":1,}`, jsonx.Error{Offset: 7, Msg: "is not valid JSON: expected a key in double quotes"}},
		{"no colon", `{"a" 1}`, jsonx.Error{Path: "a", Offset: 5, Msg: "is not valid JSON: expected ':' after the key"}},
		{"open array", `[1`, jsonx.Error{Offset: 2, Msg: "is not valid JSON: expected ',' or ']'"}},
		{"open object", `{"a":1`, jsonx.Error{Offset: 6, Msg: "is not valid JSON: expected ',' or '}'"}},
		{"open string", `"abc`, jsonx.Error{Offset: 4, Msg: "is not valid JSON: a string has no closing quote"}},
		{"open escaped string", `"\n`, jsonx.Error{Offset: 3, Msg: "is not valid JSON: a string has no closing quote"}},
		{"control character", "\"a\x01\"", jsonx.Error{Offset: 2, Msg: "is not valid JSON: a control character in a string must be escaped"}},
		{"bad escape", `"\x41"`, jsonx.Error{Offset: 1, Msg: "is not valid JSON: unknown escape in a string"}},
		{"bad hex", `"\u12g4"`, jsonx.Error{Offset: 1, Msg: "is not valid JSON: unknown escape in a string"}},
		{"lone backslash", `"\`, jsonx.Error{Offset: 1, Msg: "is not valid JSON: unknown escape in a string"}},
		{"invalid utf-8", "[\"ok\",\"\xff\"]", jsonx.Error{Offset: 7, Msg: "is not valid UTF-8"}},
		{"raw surrogate", "\"\xed\xa0\x80\"", jsonx.Error{Offset: 1, Msg: "is not valid UTF-8"}},
		{"byte order mark", "\ufeff1", jsonx.Error{Msg: "is not valid JSON: expected a value"}},
		{"duplicate", `{"a":{"b":[0,{"k":1,"k":2}]}}`, jsonx.Error{Path: "a.b[1].k", Offset: 20, Msg: "is a duplicate key"}},
		{"duplicate by escape", `{"k":1,"\u006b":2}`, jsonx.Error{Path: "k", Offset: 7, Msg: "is a duplicate key"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := jsonx.Parse([]byte(tt.text), jsonx.Limits{})
			got, ok := errors.AsType[*jsonx.Error](err)
			if !ok {
				t.Fatalf("Parse(%q) = %v, want an *Error", tt.text, err)
			}
			must.Same(t, "Parse("+tt.text+")", tt.want, *got)
		})
	}
}

func TestParseFindsDuplicatesInLargeObjects(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 16, 17, 18, 19, 1000} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		unique := "{" + b.String() + `"last":0}`
		must.Same(t, "members parsed", n+1, mustParse(t, unique).Len())
		for _, i := range []int{0, n / 2, n - 1} {
			twice := fmt.Sprintf(`{%s"k%d":0}`, b.String(), i)
			if _, err := jsonx.Parse([]byte(twice), jsonx.Limits{}); err == nil {
				t.Errorf("of %d members, the second k%d was accepted", n, i)
			}
		}
	}
}

func TestParseBoundsDepth(t *testing.T) {
	t.Parallel()
	nested := func(open, inner, closing string, n int) []byte {
		return []byte(strings.Repeat(open, n) + inner + strings.Repeat(closing, n))
	}
	for _, shape := range [][3]string{{"[", "", "]"}, {`{"a":`, "1", "}"}, {`[{"a":`, "1", "}]"}} {
		step := strings.Count(shape[0], "[") + strings.Count(shape[0], "{")
		if _, err := jsonx.Parse(nested(shape[0], shape[1], shape[2], 200/step), jsonx.Limits{}); err != nil {
			t.Errorf("%s 200 levels deep: %v", shape[0], err)
		}
		_, err := jsonx.Parse(nested(shape[0], shape[1], shape[2], 200/step+1), jsonx.Limits{})
		must.Match(t, shape[0]+" 201 levels deep", err, must.Text("nested more than 200 levels"))
		if len(err.Error()) > 1100 {
			t.Errorf("the message is %d bytes long", len(err.Error()))
		}
	}
	if _, err := jsonx.Parse(bytes.Repeat([]byte("["), 1<<20), jsonx.Limits{}); err == nil {
		t.Error("a million open brackets were accepted")
	}
	must.Fail(jsonx.Parse([]byte(`[[1]]`), jsonx.Limits{Depth: 1}))(t, "two levels were accepted with Depth 1", must.Text("is nested more than 1 levels deep"))
}

func TestParseBoundsNodes(t *testing.T) {
	t.Parallel()
	must.Get(jsonx.Parse([]byte(`[1,2]`), jsonx.Limits{Nodes: 3}))(t)
	if _, err := jsonx.Parse([]byte(`[1,2,3]`), jsonx.Limits{Nodes: 3}); err == nil {
		t.Error("four values were accepted with Nodes 3")
	}
}

func TestErrorPathIsShortAndPrintable(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	_, err := jsonx.Parse([]byte(`{"`+long+`":{"a\nb\u0000":x}}`), jsonx.Limits{})
	e, ok := errors.AsType[*jsonx.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	if len(e.Path) > 80 || !utf8.ValidString(e.Path) || strings.ContainsAny(e.Path, "\n\x00") {
		t.Errorf("path %q is not short, valid and printable", e.Path)
	}
}

// FuzzParse compares Parse with encoding/json. Both accept the same texts,
// except texts that Parse rejects by rule, and the text that Parse writes back
// has the same meaning.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.50,{"b":null}],"c":"\ud83d\ude00\ud800"}`, `"\u0000"`, `[1e400,-0,01]`, `{"a":1,"a":2}`,
		` [ ] `, `{"a"}`, "\"\xff\"", `nul`, `1.`, "[\"\\", `{"":{"":[]}}`, "\ufeff[]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := jsonx.Parse(data, jsonx.Limits{})
		if err != nil {
			refusedByRule := !utf8.Valid(data) || strings.Contains(err.Error(), "duplicate key") ||
				strings.Contains(err.Error(), "nested more than")
			if json.Valid(data) && !refusedByRule {
				t.Fatalf("valid JSON rejected: %v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("invalid JSON accepted")
		}
		written := v.Append(nil)
		again := must.Get(jsonx.Parse(written, jsonx.Limits{}))(t)
		if !again.Equal(v) || !bytes.Equal(again.Append(nil), written) {
			t.Fatalf("writing %s changed it", written)
		}
		must.Same(t, "the meaning changed", meaning(t, data), meaning(t, written))
	})
}

func meaning(t *testing.T, data []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var x any
	must.Do(t, dec.Decode(&x))
	return x
}
