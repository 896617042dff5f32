package vaultsql

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// Lookup returns the ids of the tokens that hold a value, for a WHERE clause
// (permission token:search). A field with index has a token for each row. A
// field with dedup has at most one token for the value.
//
// Row is a struct with the field, or a pointer to one. Name the field of a
// nested struct with dots, as in Address.Street. The tag of the field must
// have index or dedup. The value must have the type of the field's values.
//
// Values are compared byte for byte. Lookup rejects an empty text, which has
// no index, and values of more than about 190 characters.
func Lookup(ctx context.Context, c Reader, row any, field string, value any) ([]string, error) {
	s, err := findField(row, field)
	if err != nil {
		return nil, err
	}
	if !s.tag.index {
		return nil, s.wrap(errors.New("the tag has neither index nor dedup, so tokens cannot be found by its value"))
	}
	text, err := s.searchText(value)
	if err != nil {
		return nil, s.wrap(err)
	}
	query := `data:"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	var ids []string
	for tok, err := range c.AllTokens(ctx, vault.SearchTokensParams{Query: query}) {
		if err != nil {
			return nil, s.wrap(err)
		}
		if tok.Unreadable {
			return nil, s.wrap(errUnreadable)
		}
		if s.mayHold(tok) {
			ids = append(ids, tok.ID)
		}
	}
	return ids, nil
}

// errUnreadable is about a token whose row in the vault cannot be decrypted.
var errUnreadable = errors.New("the vault cannot read the token")

// findField finds a field and its tag by name.
func findField(row any, name string) (*sealing, error) {
	t := reflect.TypeOf(row)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil, errors.New("vaultsql: lookup: the row must be a struct, or a pointer to one")
	}
	path := typeName(t)
	var at *step
	for part := range strings.SplitSeq(name, ".") {
		var sf reflect.StructField
		ok := t.Kind() == reflect.Struct && !isColumn(t)
		if ok {
			sf, ok = t.FieldByName(part)
		}
		if !ok {
			return nil, fieldErrorf(path+"."+part, "there is no such field")
		}
		var err error
		if at, err = stepOf(sf, path); err != nil {
			return nil, err
		}
		t, path = baseOf(sf.Type), path+"."+part
	}
	if at == nil || !isColumn(t) {
		return nil, fieldErrorf(path, "is not a sealed field")
	}
	f := &field{column: reflect.New(t).Interface().(column), tag: at.tag, in: &trail{step: path}}
	return &sealing{field: f}, nil
}

// searchText returns the text of a value in the search index of the field.
func (s *sealing) searchText(value any) (string, error) {
	var text vault.JSON
	var err error
	if of, ok := value.(interface{ encode() (vault.JSON, error) }); ok {
		text, err = of.encode()
	} else {
		text, err = encode(value)
	}
	if err == nil && s.typ() == vault.TypeCard {
		text, err = withoutCVC(text)
	}
	if err != nil {
		return "", err
	}
	found := maskText(text)
	if found == "" {
		return "", fmt.Errorf("%w: an empty text is not indexed", vault.ErrInvalid)
	}
	return found, nil
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

// mayHold reports whether a token can belong to the field.
func (s *sealing) mayHold(t *vault.Token) bool {
	if t.Type != s.typ() {
		return false
	}
	for _, container := range s.tag.containers {
		if !slices.Contains(t.Containers, strings.ToLower(container)) {
			return false
		}
	}
	return true
}
