package form_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// record is an object with a field of each kind.
type record struct {
	Text, Optional string
	JSON           string
	Bool           bool
	MaybeBool      *bool
	Int            int
	ID             uuid.UUID
	Texts          []string
	OneOrMore      []string
	TextMap        map[string]string
	Inner          string
	Each           []string
	Moment, Expiry time.Time
}

func (x *record) read(r *form.Reader) {
	x.Text, x.Optional, x.JSON = r.Text("text"), r.OptionalText("optional"), string(r.JSON("json"))
	x.Bool, x.MaybeBool = r.Bool("bool", true), r.OptionalBool("maybe")
	x.Int, _ = r.Int("int")
	x.ID, _ = r.ID("id")
	x.Texts, x.OneOrMore, x.TextMap = r.Texts("texts"), r.TextOrTexts("one"), r.TextMap("map")
	r.Object("inner", func(r *form.Reader) { x.Inner = r.Text("text") })
	r.Each("each", func(r *form.Reader) { x.Each = append(x.Each, r.Text("text")) })
	x.Moment, x.Expiry = r.Moment("moment"), r.Expiry("expiry")
}

func TestReader(t *testing.T) {
	t.Parallel()
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	yes := true
	id := uuid.MustParse("0192f1c8-2f4e-7000-8000-000000000001")
	for name, c := range map[string]struct {
		text   string
		want   record
		fields map[string][]string
	}{
		"nothing": {text: `{}`, want: record{Bool: true}},
		"null is absent": {
			text: `{"text":null,"optional":null,"json":null,"bool":null,"maybe":null,"int":null,"id":null,"texts":null,"map":null,"inner":null,"each":null,"moment":null,"expiry":null}`,
			want: record{Bool: true},
		},
		"everything": {
			text: `{"text":"a","optional":"b","json":[1.10],"bool":false,"maybe":true,"int":7,"id":"` + id.String() + `","texts":["c"],"one":"d",
				"map":{"e":"f"},"inner":{"text":"g"},"each":[{"text":"h"}],"moment":"2031-02-03T04:05:06Z","expiry":"2/3/2031 4:05:06 AM +00:00"}`,
			want: record{Text: "a", Optional: "b", JSON: "[1.10]", MaybeBool: &yes, Int: 7, ID: id, Texts: []string{"c"}, OneOrMore: []string{"d"},
				TextMap: map[string]string{"e": "f"}, Inner: "g", Each: []string{"h"}, Moment: at, Expiry: at},
		},
		"wrong types": {
			text: `{"text":1,"maybe":"x","int":1.5,"id":"x","texts":[1],"map":{"a":1},"inner":[],"each":[1],"moment":"x","expiry":""}`,
			want: record{Bool: true, Texts: []string{}, TextMap: map[string]string{}},
			fields: map[string][]string{
				"text": {"must be of type string"}, "maybe": {"must be of type boolean"}, "int": {"must be an integer"}, "id": {"must be a UUID"},
				"texts[0]": {"must be of type string"}, "map.a": {"must be of type string"}, "inner": {"must be of type object"}, "each[0]": {"must be an object"},
				"moment": {"must be an ISO 8601 date-time"},
				"expiry": {"must be M/D/YYYY, M/D/YYYY h:mm:ss AM|PM +hh:mm, or an ISO 8601 date-time"},
			},
		},
		"an empty text": {text: `{"optional":""}`, want: record{Bool: true}, fields: map[string][]string{"optional": {"must not be empty"}}},
		"unknown fields": {
			text: `{"other":null,"inner":{"more":1}}`, want: record{Bool: true},
			fields: map[string][]string{"other": {"is not a field of this object"}, "inner.more": {"is not a field of this object"}},
		},
		"not an object": {text: `[]`, fields: map[string][]string{"": {"must be an object"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got record
			bad := form.ReadText([]byte(c.text), got.read)
			must.Same(t, "problems", c.fields, bad.Fields)
			must.Same(t, "fields", c.want, got)
		})
	}
}

func TestWriterIsReadBack(t *testing.T) {
	t.Parallel()
	w := &form.Writer{}
	w.Text("text", "a")
	w.Text("optional", "")
	w.Value("json", jsonx.IntValue(1))
	w.Int("int", 0)
	w.Texts("texts", []string{})
	w.TextMap("map", map[string]string{"z": "1", "a": "2"})
	must.Same(t, "the form as JSON", `{"text":"a","json":1,"texts":[],"map":{"a":"2","z":"1"}}`, string(w.JSON()))
}

// A document can have a million bad values, but the list of problems is
// bounded.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	bad := &form.Problems{}
	for i := range 3000 {
		bad.Add(fmt.Sprintf("[%d]", i), "is required")
		bad.Add("one", "is required")
	}
	if len(bad.Fields) > 1000 || len(bad.Fields["one"]) > 1000 {
		t.Errorf("%d fields, %d messages about one", len(bad.Fields), len(bad.Fields["one"]))
	}
}

func TestProblemsOfParsers(t *testing.T) {
	t.Parallel()
	bad := form.Of("args", &jsonx.Error{Path: "a[0]", Msg: "is wrong"})
	bad.AddErr("other", errors.New("is bad"))
	bad.AddAll("tokenize", map[string][]string{"[0]": {"is required"}})
	bad.AddUnknown(map[string][]string{"x": {"is not a field of this object"}, "y": {"is required"}})
	bad.AddUnknown(map[string][]string{"x": {"is not a field of this object"}})
	want := map[string][]string{
		"args.a[0]": {"is wrong"}, "other": {"is bad"}, "tokenize[0]": {"is required"}, "x": {"is not a field of this object"},
	}
	must.Same(t, "fields of the problem", want, bad.Fields)
	must.Same(t, "the text of a problem", "invalid input; b: is wrong", form.Problem("b", "is %s", "wrong").String())
	var none *form.Problems
	if none.Any() || !bad.Any() {
		t.Error("Any is wrong")
	}
}

// A name must not look like another one, or like two lines.
func TestMisleadingNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"Acme": true, "Société Générale": true, "שלום": true, "a\u200db": true,
		"a\u202ab": false, "a\u202eb": false, "a\u2066b": false, "a\u2069b": false, "a\u2028b": false, "a\u2029b": false,
	} {
		bad := &form.Problems{}
		form.CheckName(bad, "name", name)
		if bad.Any() == ok {
			t.Errorf("%+q: %v", name, bad)
		}
	}
}
