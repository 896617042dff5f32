package vaultsql_test

import (
	"encoding"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// formats encode and decode a field in every format that has its own code.
var formats = map[string]struct {
	encode func(any) ([]byte, error)
	decode func([]byte, any) error
}{
	"JSON": {json.Marshal, json.Unmarshal},
	"text": {
		func(x any) ([]byte, error) { return x.(encoding.TextMarshaler).MarshalText() },
		func(text []byte, x any) error { return x.(encoding.TextUnmarshaler).UnmarshalText(text) },
	},
}

// A field that is encoded and decoded is the same field: it has the same id and is
// sealed, whatever the type of its values, and opens to the same value.
func TestRoundTripKeepsTheToken(t *testing.T) {
	t.Parallel()
	v, r := vaulttest.New(t), rand.New(rand.NewPCG(1, 2))
	for _, k := range kinds {
		for range 20 {
			of := reflect.New(k.typ)
			of.Elem().Set(reflect.ValueOf(k.random(r)))
			seal(t, v.Private, of.Interface())
			for name, format := range formats {
				got := reflect.New(k.typ)
				text := must.Get(format.encode(of.Interface()))(t)
				must.Do(t, format.decode(text, got.Interface()))
				sameField(t, v, name, of, got)
			}
		}
	}
}

// sameField compares a sealed field with its copy before and after Open.
func sameField(t *testing.T, v *vaulttest.Vault, name string, of, got reflect.Value) {
	t.Helper()
	id := func(of reflect.Value) any { return of.MethodByName("ID").Call(nil)[0].Interface() }
	must.Same(t, name+": the id", id(of), id(got))
	if err, _ := valueOf(got)[1].(error); id(got) != "" && !errors.Is(err, vaultsql.ErrSealed) {
		t.Errorf("%s: the copy of a %v is not sealed: %v", name, of.Type(), err)
	}
	column := func(of reflect.Value) []reflect.Value { return of.MethodByName("Value").Call(nil) }
	must.Same(t, name+": the column", column(of)[0].Interface(), column(got)[0].Interface())
	seal(t, v.Private, got.Interface())
	open(t, v.Private, got.Interface())
	must.Same(t, name+": the value", valueOf(of), valueOf(got))
}

// A value that looks like a reference is a value, because its form differs.
func TestValuesThatLookLikeReferences(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	type row struct {
		Text vaultsql.Text
		Map  vaultsql.Of[map[string]string]
	}
	victim := vaultsql.NewText(secret)
	seal(t, v.Private, &victim)
	reference := string(must.Get(json.Marshal(victim))(t))
	for _, text := range []string{victim.ID(), reference} {
		var r row
		body := must.Get(json.Marshal(map[string]any{"Text": text, "Map": map[string]string{"vault": text}}))(t)
		must.Do(t, json.Unmarshal(body, &r))
		must.Same(t, "the text", text, get(t, r.Text))
		must.Do(t, vaultsql.CheckNew(&r))
	}
	r := row{Map: vaultsql.New(map[string]string{"$vault": victim.ID()})}
	seal(t, v.Private, &r)
	var again row
	must.Do(t, json.Unmarshal(must.Get(json.Marshal(r))(t), &again))
	open(t, v.Private, &again)
	must.Same(t, "a map with the name of a reference", get(t, r.Map), get(t, again.Map))
}

// What is neither a reference nor a value fails. The error names the field, and
// nothing of the value.
func TestJSONThatIsRefused(t *testing.T) {
	t.Parallel()
	type row struct {
		Name vaultsql.Text
		Age  vaultsql.Of[int8]
		Map  vaultsql.Of[map[string]any]
		Home struct{ Street vaultsql.Text }
		List []vaultsql.Text
	}
	for body, field := range map[string]string{
		`{"Name": {"$vault": 5}}`:                        "row.Name",
		`{"Name": {"$vault": ""}}`:                       "row.Name",
		`{"Name": {"$vault": "a }}{{ b"}}`:               "row.Name",
		`{"Name": {"$vault": "tok-1", "x": 1}}`:          "row.Name",
		`{"Name": {"$vault": "tok-1", "$vault": "tok"}}`: "row.Name",
		`{"Name": {"$Vault": "4242424242424242"}}`:       "row.Name",
		`{"Name": ["4242424242424242"]}`:                 "row.Name",
		`{"Age": "4242424242424242"}`:                    "row.Age",
		`{"Age": 4242424242424242}`:                      "row.Age",
		`{"Map": {"a": 1, "\u0024vault": "tok-1"}}`:      "row.Map",
		`{"Home": {"Street": 4242424242424242}}`:         "Home.Street",
		`{"List": [true]}`:                               "row.List",
	} {
		var r row
		err := json.Unmarshal([]byte(body), &r)
		if err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "4242") || strings.Contains(err.Error(), "tok-") {
			t.Errorf("%s: %v", body, err)
		}
	}
	var text vaultsql.Text
	if err := text.UnmarshalText([]byte(secret)); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a value as text: %v", err)
	}
}

// A value that is not in the vault is written in no format.
func TestUnsealedValuesAreNotEncoded(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	changed := vaultsql.NewText("old")
	seal(t, v.Private, &changed)
	changed.Set(secret)
	for _, text := range []vaultsql.Text{vaultsql.NewText(secret), changed} {
		for name, format := range formats {
			if out, err := format.encode(text); !errors.Is(err, vaultsql.ErrUnsealed) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %s %v", name, out, err)
			}
		}
	}
	seal(t, v.Private, &changed)
	written := must.Get(xml.Marshal(person{Name: changed}))(t)
	var read person
	must.Do(t, xml.Unmarshal(written, &read))
	must.Same(t, "the id after XML", changed.ID(), read.Name.ID())
	must.Match(t, "gob", gob.NewEncoder(io.Discard).Encode(changed), must.Text("no exported fields"))
	absent := must.Get(json.Marshal(struct {
		A vaultsql.Text
		B vaultsql.Text `json:",omitzero"`
	}{}))(t)
	must.Same(t, "an absent field", `{"A":null}`, string(absent))
}

// A caller that gets a row and sends it back changes nothing. A caller that sends
// the token of another row is refused.
func TestGetThenPut(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	cust, other := newCustomer(), newCustomer()
	other.Name.Set("Joe Bloggs")
	seal(t, v.Private, cust, other)
	body := must.Get(json.Marshal(cust.reread(t)))(t)
	stored := cust.reread(t)
	open(t, v.Private, stored)
	must.Do(t, json.Unmarshal(body, stored))
	c := count(v.Private)
	seal(t, c, stored)
	c.expect(t, map[string]int{})
	must.Same(t, "the name", "Jane Doe", get(t, stored.Name))
	must.Same(t, "the name of a copy", cust.Name.ID(), stored.Name.ID())

	foreign := must.Get(json.Marshal(other))(t)
	if err := json.Unmarshal(foreign, stored); err == nil || !strings.Contains(err.Error(), "customer.Name") || stored.Name.ID() != cust.Name.ID() {
		t.Errorf("the token of another row: %v", err)
	}
	var made customer
	must.Do(t, json.Unmarshal(foreign, &made))
	err := vaultsql.CheckNew(&made)
	if !errors.Is(err, vault.ErrInvalid) || !strings.Contains(err.Error(), "customer.Name") {
		t.Errorf("a new row with the token of another row: %v", err)
	}
	res := httptest.NewRecorder()
	httpserver.WriteError(res, err)
	must.Contain(t, "the response", res.Body.String(), `"errors":{"Name":["must not refer to a token: a new row has values"]}`)
}

// A request cannot bring the token of another row into a row, in a field of any kind
// that has none.
func TestDecodeJSONTakesNoOtherTokens(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	type row struct {
		Name vaultsql.Text
		Nick vaultsql.Text
		Ptr  *vaultsql.Text
		List []vaultsql.Text
		Map  map[string]*vaultsql.Text
		Home struct{ Street vaultsql.Text }
	}
	victim, mine := vaultsql.NewText(secret), row{Name: vaultsql.NewText("Joe")}
	seal(t, v.Private, &victim, &mine)
	reference, own := string(must.Get(json.Marshal(victim))(t)), must.Get(json.Marshal(mine))(t)
	for field, body := range map[string]string{
		"row.Nick": `{"Nick": ` + reference + `}`, "row.Ptr": `{"Ptr": ` + reference + `}`, "row.List[0]": `{"List": [` + reference + `]}`,
		"row.Map[string]": `{"Map": {"k": ` + reference + `}}`, "row.Home.Street": `{"Home": {"Street": ` + reference + `}}`, "row.Name": `{"Name": ` + reference + `}`,
	} {
		for _, into := range []row{{}, mine} {
			err := vaultsql.DecodeJSON([]byte(body), &into)
			if !errors.Is(err, vault.ErrInvalid) || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), victim.ID()) {
				t.Errorf("%s: %v", body, err)
			}
		}
	}
	changed := mine
	must.Do(t, vaultsql.DecodeJSON(own, &changed))
	must.Do(t, vaultsql.DecodeJSON([]byte(`{"Name": "Jim", "Nick": "J", "List": ["x"]}`), &changed))
	must.Same(t, "the token", mine.Name.ID(), changed.Name.ID())
	must.Same(t, "the value", "Jim", get(t, changed.Name))
	must.Match(t, "no JSON", vaultsql.DecodeJSON([]byte("{"), &changed), must.Text("unexpected end"))
	must.Match(t, "no row", vaultsql.DecodeJSON(own, nil), must.Text("nil was given"))
	err := vaultsql.DecodeJSON([]byte(`{"Nick": `+reference+`}`), &mine)
	must.Same(t, "the status", 400, httpserver.StatusOf(err))
}

// A request cannot move a token of the row into another field of the row, which more
// people may read.
func TestDecodeJSONMovesNoTokens(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	type address struct{ Street vaultsql.Text }
	type row struct {
		SSN  vaultsql.Text
		Nick vaultsql.Text
		Ptr  *vaultsql.Text
		List []vaultsql.Text
		Map  map[string]*vaultsql.Text
		Home address
		Work address
	}
	phone := vaultsql.NewText("555-1")
	mine := row{SSN: vaultsql.NewText(secret), Home: address{vaultsql.NewText("1 Main Street")}, List: []vaultsql.Text{vaultsql.NewText("a"), vaultsql.NewText("b")}, Map: map[string]*vaultsql.Text{"home": &phone}}
	seal(t, v.Private, &mine)
	reference := func(of vaultsql.Text) string { return string(must.Get(json.Marshal(of))(t)) }
	ssn := reference(mine.SSN)
	for field, body := range map[string]string{
		"row.Nick": `{"Nick": ` + ssn + `}`, "row.Ptr": `{"SSN": null, "Ptr": ` + ssn + `}`, "row.List[2]": `{"List": [` + reference(mine.List[0]) + `, "c", ` + ssn + `]}`,
		"row.Map[string]": `{"Map": {"k": ` + ssn + `}}`, "Work.Street": `{"Work": {"Street": ` + reference(mine.Home.Street) + `}}`,
	} {
		into := mine
		into.List, into.Map = slices.Clone(mine.List), maps.Clone(mine.Map)
		err := vaultsql.DecodeJSON([]byte(body), &into)
		if !errors.Is(err, vault.ErrInvalid) || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), mine.SSN.ID()) {
			t.Errorf("%s: %v", body, err)
		}
	}
	must.Do(t, vaultsql.DecodeJSON([]byte(`{"Map": {"work": `+reference(phone)+`}}`), &mine)) // within a list or a map
}

// View is the value, or else the mask.
func TestView(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	cust := newCustomer()
	cust.Name.Set("Jane Alice Doe")
	must.Same(t, "an absent field", "", vaultsql.Text{}.View())
	must.Same(t, "a new value", "Jane Alice Doe", cust.Name.View())
	seal(t, v.Private, cust)
	whole, clerk := cust.reread(t), cust.reread(t)
	must.Same(t, "before Open", "", clerk.Name.View())
	open(t, v.Private, whole)
	open(t, v.Private.Masked(), clerk)
	must.Same(t, "with the right to see it", "Jane Alice Doe", whole.Name.View())
	must.Same(t, "an object", `{"a":"b","c":{"d":"e"}}`, whole.Prefs.View())
	must.Same(t, "without it", "XXXXXXXXXX Doe", clerk.Name.View())
	must.Same(t, "an object without it", "", clerk.Prefs.View())
}
