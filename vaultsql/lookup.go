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

// Lookup returns the ids of the tokens whose value is the given one, for a WHERE
// clause: there may be none, one for each row, or one that rows share (permission
// token:search). Row is a struct, or a pointer to one, that has the field; a field
// of a nested struct is named with dots, such as Address.Street. The tag of the
// field must have index or dedup. The value is of the type of the field's values.
//
// Values are compared byte for byte. An empty text is not indexed, and a longer
// one than a query can hold, of about 190 characters, cannot be looked up.
func Lookup(ctx context.Context, c vault.API, row any, field string, value any) ([]string, error) {
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
	for tok, err := range c.SearchAllTokens(ctx, vault.SearchTokensParams{Query: query}) {
		if err != nil {
			return nil, s.wrap(err)
		}
		if s.mayHold(tok) {
			ids = append(ids, tok.ID)
		}
	}
	return ids, nil
}

// findField returns a field by its name, with the tag that it has.
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
	f := &field{column: reflect.New(t).Interface().(column), tag: at.tag, in: &place{step: path}}
	return &sealing{field: f}, nil
}

// searchText returns a value as the search index of the field has it.
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

// withoutCVC returns a card as its index has it.
func withoutCVC(text vault.JSON) (vault.JSON, error) {
	card, err := decode[vault.CardData](text)
	if err != nil {
		return nil, err
	}
	card.CVC = ""
	return encode(card)
}

// mayHold reports whether a token can be one of the field.
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
