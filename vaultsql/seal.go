package vaultsql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Seal stores the new and changed values of dst in the vault (permissions
// token:create for new values, token:update for changed ones). Each dst is a
// pointer to a struct, or a slice of structs. Seal skips fields that did not
// change.
//
// One call creates the tokens of all new values, or none of them. A changed
// value is written to its token with one call each, so the id stays. A
// changed dedup field gets another token, because other rows may share the
// old one.
//
// A Seal with changes is atomic only with a client from [vault.Client.InTx].
// Otherwise, after an error, a second Seal continues where the first one
// stopped.
//
// Seal sets the ids in dst even if the transaction is rolled back later. To
// repeat a transaction, use values that were not sealed: build them again, or
// copy them before Seal.
//
// Changes are JSON merge patches. To change an object, such as a map, Seal
// needs the old value. If the field was not opened, Seal reads it (permission
// token:use).
func Seal(ctx context.Context, c API, dst ...any) error {
	fields, err := collect(dst)
	if err != nil {
		return err
	}
	fields = slices.DeleteFunc(fields, func(f *field) bool { return f.head().state != fresh })
	now, err := clock(ctx, c, fields)
	if err != nil {
		return err
	}
	var created, changed []*sealing
	for _, f := range fields {
		s, err := newSealing(f, now)
		switch {
		case err != nil:
			return f.wrap(err)
		case s.old != nil && s.head().id != "" && s.expires.IsZero() && bytes.Equal(s.old, s.data):
			f.head().state = opened
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

// clock returns the time of the vault if a field expires.
func clock(ctx context.Context, c API, fields []*field) (time.Time, error) {
	at := slices.IndexFunc(fields, func(f *field) bool { return f.tag.expires > 0 })
	if at < 0 {
		return time.Time{}, nil
	}
	now, err := c.Now(ctx)
	if err != nil {
		return now, fields[at].wrap(err)
	}
	return now, nil
}

// sealing is a field with a value to store.
type sealing struct {
	*field
	data     vault.JSON
	old      vault.JSON        // the value in the vault; nil if unknown
	expires  time.Time         // zero for never
	metadata map[string]string // may be nil
}

func newSealing(f *field, now time.Time) (*sealing, error) {
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
		s.expires = now.Add(f.tag.expires)
	}
	s.metadata, err = f.metadata()
	return s, err
}

func hasCVC(card vault.JSON) bool {
	var d vault.CardData
	return json.Unmarshal(card, &d) == nil && d.CVC != ""
}

// stored marks the field as stored. A nil mask is unknown.
func (s *sealing) stored(id string, mask vault.JSON) {
	h := s.head()
	h.id, h.state, h.mask = id, opened, nil
	if mask != nil {
		h.mask = boxed(maskText(mask))
	}
}

// maskText returns a mask as text: a string as it is, anything else as JSON.
func maskText(mask vault.JSON) string {
	var text string
	if json.Unmarshal(mask, &text) == nil {
		return text
	}
	return string(mask)
}

// params returns the parameters of the token to create for the value.
func (s *sealing) params() vault.TokenParams {
	p := vault.TokenParams{
		Type: s.typ(), Data: s.data, Containers: s.tag.containers, SearchIndexes: s.indexes(),
		DeduplicateToken: &s.tag.dedup, ExpiresAt: s.expires, Metadata: s.metadata,
	}
	if s.tag.dedup {
		p.FingerprintExpression = s.sharedBy(s.data)
	}
	if mask := s.maskOf(s.data); mask != "" {
		p.Mask = mask
	}
	return p
}

// wholeValue is the expression of a search index.
const wholeValue = "{{ data | stringify }}"

// sharedBy returns the fingerprint expression for a value in a dedup field.
// The vault treats tokens as duplicates only if their expressions are equal.
// The text of the expression separates fields with different containers, and
// the text "42" from the number 42. It also prevents dedup fields from
// sharing tokens that were created by other means, because their owners may
// change them.
func (f *field) sharedBy(data vault.JSON) string {
	kind := "json"
	if data[0] == '"' {
		kind = "text"
	}
	return sharedPrefix + strings.Join(append([]string{kind}, f.tag.containers...), " ") + " " + wholeValue
}

// indexes returns the search indexes of the token, or nil for the default of
// its type. The vault rejects an empty text as an index.
func (s *sealing) indexes() []string {
	switch {
	case !s.tag.index, s.typ() == vault.TypeSocialSecurityNumber, s.typ() == vault.TypeEmployerIDNumber:
		return nil // the default indexes of these types include the whole value
	case string(s.data) == `""`:
		return []string{}
	default:
		return []string{wholeValue}
	}
}

// create creates the tokens of new values, all or none.
func create(ctx context.Context, c API, new []*sealing) error {
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
		s.stored(tokens[i].ID, tokens[i].Data)
	}
	return prolong(ctx, c, new, tokens)
}

// prolong extends the expiry of shared tokens that would expire before the new rows.
func prolong(ctx context.Context, c API, new []*sealing, tokens []shown) error {
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

// shown is a token as the vault returns it.
type shown struct {
	ID         string          `json:"id"`
	Type       vault.TokenType `json:"type"`
	Data       vault.JSON      `json:"data"`
	Transform  vault.Transform `json:"transform"`
	Mask       vault.JSON      `json:"mask"`
	Containers []string        `json:"containers"`
	ExpiresAt  time.Time       `json:"expires_at"`
}

// element matches the path of an array element, with the path inside the element.
var element = regexp.MustCompile(`^\[([0-9]+)\]\.?(.*)$`)

// explain names the fields that an error of Tokenize is about.
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
	found := byField(bad, len(new))
	for _, at := range slices.Sorted(maps.Keys(found)) {
		all = append(all, new[at].wrap(&vault.InvalidError{Fields: found[at]}))
	}
	if len(all) == 0 {
		return fmt.Errorf("vaultsql: seal: %w", err)
	}
	return errors.Join(all...)
}

// byField groups the messages about an array by element. It returns nil if a message
// is about the whole array.
func byField(bad *vault.InvalidError, length int) map[int]map[string][]string {
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
	return found
}
