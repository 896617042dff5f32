package vaultsql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Seal puts into the vault what Set, New or a request body gave the fields of dst:
// pointers to structs, or slices of structs (permission token:create, and
// token:update where a field changes). Fields that are in the vault already are
// left alone.
//
// New values become tokens in one call: all of them or none. A changed value
// changes its token, one call for each, and the id stays; a Seal that does this is
// atomic only with a client of [vault.Client.InTx]. If such a call fails, the
// fields before it are done, and another Seal goes on with the rest. A changed
// dedup field gets another token, because other rows may share the old one.
//
// A change is a JSON merge patch. A field that holds an object with names of the
// program's own choice, such as a map, has to be known to be changed: unless it
// was opened, Seal reads it (permission token:use).
func Seal(ctx context.Context, c vault.API, dst ...any) error {
	fields, err := collect(dst)
	if err != nil {
		return err
	}
	var created, changed []*sealing
	for _, f := range fields {
		if f.head().state != fresh {
			continue
		}
		s, err := newSealing(f)
		switch {
		case err != nil:
			return f.wrap(err)
		case s.unchanged():
			s.settle(f.head().id, nil)
		case f.head().id == "" || f.tag.dedup:
			created = append(created, s)
		default:
			changed = append(changed, s)
		}
	}
	if err := create(ctx, c, created); err != nil {
		return err
	}
	return change(ctx, c, changed)
}

// sealing is a field whose value goes into the vault.
type sealing struct {
	*field
	data    vault.JSON
	old     vault.JSON // what the token holds; nil if that is not known, or there is none
	expires time.Time  // zero for never
}

func newSealing(f *field) (*sealing, error) {
	s := &sealing{field: f}
	var err error
	if s.data, err = f.encode(); err != nil {
		return nil, err
	}
	if s.old, err = f.before(); err != nil {
		return nil, err
	}
	if f.tag.dedup && s.typ() == vault.TypeCard && hasCVC(s.data) {
		return nil, fmt.Errorf("%w: a card in a dedup field must not have a cvc, which all rows with this card would share", vault.ErrInvalid)
	}
	if f.tag.expires > 0 {
		s.expires = time.Now().Add(f.tag.expires)
	}
	return s, nil
}

func hasCVC(card vault.JSON) bool {
	var d vault.CardData
	return json.Unmarshal(card, &d) == nil && d.CVC != ""
}

func (s *sealing) typ() vault.TokenType {
	if s.tag.typ != "" {
		return s.tag.typ
	}
	return s.tokenType()
}

// unchanged reports whether the token holds the value already. An expiry starts
// again even so.
func (s *sealing) unchanged() bool {
	return s.old != nil && s.head().id != "" && s.expires.IsZero() && bytes.Equal(s.old, s.data)
}

// settle notes that the value is in the vault. A nil mask is unknown.
func (s *sealing) settle(id string, mask vault.JSON) {
	h := s.head()
	h.id, h.state = id, opened
	if mask != nil {
		h.mask = boxed(maskText(mask))
	}
}

// maskText returns a mask as text: a string as it is, and JSON otherwise.
func maskText(mask vault.JSON) string {
	var text string
	if json.Unmarshal(mask, &text) == nil {
		return text
	}
	return string(mask)
}

// params returns the token that is created for the value.
func (s *sealing) params() vault.TokenParams {
	p := vault.TokenParams{
		Type: s.typ(), Data: s.data, Containers: s.tag.containers, SearchIndexes: s.indexes(),
		DeduplicateToken: &s.tag.dedup, ExpiresAt: s.expires,
	}
	if s.tag.dedup {
		p.FingerprintExpression = s.sharedBy()
	}
	if _, binary := s.column.(*Bytes); binary && p.Type == vault.TypeGeneric {
		p.Mask = maskNothing
	}
	return p
}

// Expressions of tokens.
const (
	wholeValue  = "{{ data | stringify }}"
	maskNothing = "{{ data | reveal_last: 0 }}"
)

// sharedBy returns the fingerprint expression of a value in a dedup field. Only
// tokens with the same expression are duplicates of each other. Its text keeps
// apart fields with other containers, and tokens that were not made here: those may
// be changed in place. It also tells the text "42" from the number 42.
func (s *sealing) sharedBy() string {
	kind := "json"
	if s.data[0] == '"' {
		kind = "text"
	}
	return strings.Join(append([]string{"vaultsql", kind}, s.tag.containers...), " ") + " " + wholeValue
}

// indexes returns the search indexes of the token: nil for the type's own. An
// empty text cannot be one.
func (s *sealing) indexes() []string {
	switch {
	case !s.tag.index || hasOwnIndex(s.typ()):
		return nil
	case string(s.data) == `""`:
		return []string{}
	default:
		return []string{wholeValue}
	}
}

// hasOwnIndex reports whether tokens of a type can be found by their whole value
// anyway.
func hasOwnIndex(t vault.TokenType) bool {
	return t == vault.TypeSocialSecurityNumber || t == vault.TypeEmployerIDNumber
}

// create makes the tokens of new values, all or none.
func create(ctx context.Context, c vault.API, new []*sealing) error {
	if len(new) == 0 {
		return nil
	}
	params := make([]vault.TokenParams, len(new))
	for i, s := range new {
		params[i] = s.params()
	}
	text, err := c.Tokenize(ctx, params)
	if err != nil {
		return explain(new, err)
	}
	var tokens []shown
	if err := text.Decode(&tokens); err != nil || len(tokens) != len(new) {
		return errors.New("vaultsql: the vault did not return a token for each value")
	}
	for i, s := range new {
		s.settle(tokens[i].ID, tokens[i].Data)
	}
	return prolong(ctx, c, new, tokens)
}

// prolong lets tokens that existed before live as long as the new rows that share
// them.
func prolong(ctx context.Context, c vault.API, new []*sealing, tokens []shown) error {
	for i, s := range new {
		ends := tokens[i].ExpiresAt
		if !s.tag.dedup || ends.IsZero() || !ends.Before(s.expires.Truncate(time.Second)) {
			continue
		}
		if _, err := c.PatchToken(ctx, tokens[i].ID, map[string]any{"expires_at": s.expires}); err != nil {
			return s.wrap(err)
		}
	}
	return nil
}

// shown is what a token shows of itself.
type shown struct {
	ID         string          `json:"id"`
	Type       vault.TokenType `json:"type"`
	Data       vault.JSON      `json:"data"`
	Mask       vault.JSON      `json:"mask"`
	Containers []string        `json:"containers"`
	ExpiresAt  time.Time       `json:"expires_at"`
}

// element is the path of an element in an array, and the rest of a path.
var element = regexp.MustCompile(`^\[([0-9]+)\]\.?(.*)$`)

// explain says of an error of Tokenize which fields it is about.
func explain(new []*sealing, err error) error {
	bad, ok := errors.AsType[*vault.InvalidError](err)
	switch {
	case ok:
	case len(new) == 1:
		return new[0].wrap(err)
	case errors.Is(err, vault.ErrTooLarge):
		most := slices.MaxFunc(new, func(a, b *sealing) int { return len(a.data) - len(b.data) })
		return most.wrap(fmt.Errorf("is the largest of %d values that are too large together: %w", len(new), err))
	default:
		return fmt.Errorf("vaultsql: seal: %w", err)
	}
	var all []error
	for _, f := range byField(bad, len(new)) {
		all = append(all, new[f.at].wrap(&vault.InvalidError{Fields: f.fields}))
	}
	if len(all) == 0 {
		return fmt.Errorf("vaultsql: seal: %w", err)
	}
	return errors.Join(all...)
}

// elementError is what is wrong with one element of an array.
type elementError struct {
	at     int
	fields map[string][]string
}

// byField sorts what is wrong with an array by its elements. It returns nil if
// something is wrong with the array as a whole.
func byField(bad *vault.InvalidError, length int) []elementError {
	found := map[int]map[string][]string{}
	for path, messages := range bad.Fields {
		match := element.FindStringSubmatch(path)
		if match == nil {
			return nil
		}
		at, err := strconv.Atoi(match[1])
		if err != nil || at >= length {
			return nil
		}
		if found[at] == nil {
			found[at] = map[string][]string{}
		}
		found[at][match[2]] = messages
	}
	var all []elementError
	for at, fields := range found {
		all = append(all, elementError{at, fields})
	}
	slices.SortFunc(all, func(a, b elementError) int { return a.at - b.at })
	return all
}
