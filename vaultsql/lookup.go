package vaultsql

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// Lookup returns the ids of the tokens of a field that hold a value, for a WHERE
// clause (permission token:search). A field with index has a token for each row. A
// field with dedup has at most one token for the value.
//
// Row is a struct with the field, or a pointer to one. Name the field of a
// nested struct with dots, as in Address.Street. The tag of the field must
// have index or dedup. The value must have the type of the field's values. With
// [LookupIn] the compiler checks both.
//
// Lookup finds tokens of this field only: a field of another struct, or with another
// name, has other tokens. Rows that were sealed before the tag had index are found
// after [Reapply]. A token of a dedup field may have been created by another dedup
// field that shares tokens with this one.
//
// Values are compared byte for byte. Lookup rejects an empty text, which has
// no index, and values of more than about 190 characters.
func Lookup(ctx context.Context, c Reader, row any, field string, value any) ([]string, error) {
	f, err := findField(row, field)
	if err != nil {
		return nil, err
	}
	return f.lookup(ctx, c, value)
}

// LookupIn is [Lookup] for a field that the compiler checks:
//
//	ids, err := vaultsql.LookupIn(ctx, c, func(p *Customer) *vaultsql.Text { return &p.Email }, "jane@example.com")
//
// The function returns a field of its argument, which is a new struct with nil
// pointers.
func LookupIn[R, T any](ctx context.Context, c Reader, field func(row *R) *Of[T], value T) ([]string, error) {
	row := new(R)
	fields, err := collect([]any{row})
	if err != nil {
		return nil, err
	}
	chosen := field(row)
	for _, f := range fields {
		if f.column == column(chosen) {
			return f.lookup(ctx, c, value)
		}
	}
	return nil, fmt.Errorf("vaultsql: lookup: the function does not return a field of the %s that it was given", typeName(reflect.TypeFor[R]()))
}

// lookup returns the ids of the tokens of the field that hold a value.
func (f *field) lookup(ctx context.Context, c Reader, value any) ([]string, error) {
	if !f.tag.index {
		return nil, f.wrap(errors.New("the tag has neither index nor dedup, so tokens cannot be found by its value"))
	}
	data, err := f.sought(value)
	if err != nil {
		return nil, f.wrap(err)
	}
	text := maskText(data)
	if text == "" {
		return nil, f.wrap(fmt.Errorf("%w: an empty text is not indexed", vault.ErrInvalid))
	}
	query := "data:" + quote(text)
	if !f.tag.dedup {
		query += " AND metadata." + fieldKey + ":" + quote(f.scope())
	}
	var ids []string
	for tok, err := range c.AllTokens(ctx, vault.SearchTokensParams{Query: query}) {
		if err != nil {
			return nil, f.wrap(err)
		}
		if tok.Unreadable {
			return nil, f.wrap(errUnreadable)
		}
		if tok.Metadata[fieldKey] == f.scope() || f.tag.dedup && tok.FingerprintExpression == f.sharedBy(data) {
			ids = append(ids, tok.ID)
		}
	}
	return ids, nil
}

// quote returns a text as a phrase of a query.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// errUnreadable is about a token whose row in the vault cannot be decrypted.
var errUnreadable = errors.New("the vault cannot read the token")

// findField finds a field and its tag by name.
func findField(row any, name string) (*field, error) {
	t := reflect.TypeOf(row)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil, errors.New("vaultsql: lookup: the row must be a struct, or a pointer to one")
	}
	at := &trail{step: typeName(t)}
	found := &step{}
	for part := range strings.SplitSeq(name, ".") {
		var sf reflect.StructField
		ok := t.Kind() == reflect.Struct && !isColumn(t)
		if ok {
			sf, ok = t.FieldByName(part)
		}
		if !ok {
			return nil, fieldErrorf(at.String()+"."+part, "there is no such field")
		}
		var err error
		if found, err = stepOf(sf, at.String()); err != nil {
			return nil, err
		}
		at = &trail{at, "." + part, at.named(declaring(t, sf)).scope + "." + part}
		t = baseOf(sf.Type)
	}
	if found == nil || !isColumn(t) {
		return nil, fieldErrorf(at.String(), "is not a sealed field")
	}
	return &field{column: reflect.New(t).Interface().(column), tag: found.tag, in: at}, nil
}

// declaring returns the struct that declares a field, which may be embedded in t.
func declaring(t reflect.Type, sf reflect.StructField) reflect.Type {
	for _, i := range sf.Index[:len(sf.Index)-1] {
		t = baseOf(t.Field(i).Type)
	}
	return t
}

// sought returns the JSON of a value to look up. The value is a value of the field,
// or a field with the same type.
func (f *field) sought(value any) (vault.JSON, error) {
	v, want := reflect.ValueOf(value), f.valueType()
	var text vault.JSON
	var err error
	switch of, isOf := value.(interface{ encode() (vault.JSON, error) }); {
	case isOf && baseOf(v.Type()) == reflect.TypeOf(f.column).Elem():
		text, err = of.encode()
	case v.IsValid() && v.Type().AssignableTo(want):
		text, err = encode(value)
	case v.IsValid() && v.Kind() == want.Kind() && v.CanConvert(want):
		text, err = encode(v.Convert(want).Interface())
	default:
		return nil, fmt.Errorf("%w: the value to look up is a %T, and the field holds %s", vault.ErrInvalid, value, want)
	}
	if err == nil && f.typ() == vault.TypeCard {
		return withoutCVC(text)
	}
	return text, err
}

// withoutCVC removes the cvc from a card, because indexes never contain it.
func withoutCVC(text vault.JSON) (vault.JSON, error) {
	card, err := decode[vault.CardData](text)
	if err != nil {
		return nil, err
	}
	card.CVC = ""
	return encode(card)
}
