package vaultsql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// change patches the tokens of changed values, one after the other.
func change(ctx context.Context, c API, changed []*sealing) error {
	if err := learn(ctx, c, changed); err != nil {
		return err
	}
	for _, s := range changed {
		patch, err := s.patch()
		if err != nil {
			return s.wrap(err)
		}
		tok, err := c.PatchToken(ctx, s.head().id, patch)
		if err != nil {
			return s.wrap(err)
		}
		s.stored(s.head().id, tok.Data)
	}
	return nil
}

// learn reads the old values of changed objects if they are not known,
// because a patch has to name every member that it removes.
func learn(ctx context.Context, c API, changed []*sealing) error {
	o := newOpener(c)
	for _, s := range changed {
		if s.old == nil && bytes.HasPrefix(bytes.TrimSpace(s.data), []byte("{")) && knownNames[s.typ()] == nil {
			o.add(&field{column: &lookedUp{core: core{id: s.head().id}, sealing: s}, tag: s.tag, in: s.in, name: s.name})
		}
	}
	if err := o.run(ctx); err != nil {
		return err
	}
	for _, f := range o.fields {
		if f.head().state != opened {
			return f.wrap(fmt.Errorf("an object is changed by a patch, so its old value is needed: %w", ErrMasked))
		}
	}
	return nil
}

// lookedUp receives the old value of a field that is being sealed.
type lookedUp struct {
	core
	*sealing
}

func (l *lookedUp) head() *core { return &l.core }

func (l *lookedUp) open(data vault.JSON, _ *box[string]) error {
	l.old, l.core.state = data, opened
	return nil
}

// knownNames lists the members of types whose data has a fixed form.
var knownNames = map[vault.TokenType]map[string]any{
	vault.TypeCard: {"number": nil, "expiration_month": nil, "expiration_year": nil, "cvc": nil},
	vault.TypeBank: {"routing_number": nil, "account_number": nil},
}

// patch returns the merge patch that gives the token its new value. It turns
// deduplication off, because a patch that makes a duplicate changes nothing.
func (s *sealing) patch() (map[string]any, error) {
	data, err := s.patchData()
	if err != nil {
		return nil, err
	}
	patch := map[string]any{"data": data, "deduplicate_token": false}
	if indexes := s.indexes(); indexes != nil {
		patch["search_indexes"] = indexes
	}
	if s.metadata != nil {
		patch["metadata"] = s.metadata
	}
	if mask := s.maskOf(s.data); mask != "" {
		patch["mask"] = mask
	}
	if !s.expires.IsZero() {
		patch["expires_at"] = s.expires.Format(time.RFC3339Nano)
	}
	return patch, nil
}

// patchData returns the patch of the data.
func (s *sealing) patchData() (any, error) {
	next, err := parse(s.data)
	if err != nil {
		return nil, err
	}
	object, ok := next.(map[string]any)
	if !ok {
		return next, nil
	}
	if names := knownNames[s.typ()]; names != nil {
		return difference(names, object), nil
	}
	old, err := parse(s.old)
	if err != nil {
		return nil, err
	}
	before, _ := old.(map[string]any) // nil if the old value is not an object
	patch := difference(before, object)
	if !s.reads(patch) {
		return nil, fmt.Errorf("%w: a change cannot put null into an object; leave the name out", vault.ErrInvalid)
	}
	return patch, nil
}

// reads reports whether the old JSON decodes to the new value after the patch. A
// merge patch cannot store a null member, which makes no difference to most Go
// structs.
func (s *sealing) reads(patch map[string]any) bool {
	old, err := jsonx.From(json.RawMessage(s.old))
	change, failed := jsonx.From(patch)
	copied := reflect.New(reflect.TypeOf(s.column).Elem()).Interface().(column)
	if err != nil || failed != nil || copied.open(jsonx.Merge(old, change).JSON(), nil) != nil {
		return false
	}
	got, err := copied.encode()
	return err == nil && bytes.Equal(got, s.data)
}

// parse decodes JSON and keeps the text of numbers.
func parse(text vault.JSON) (any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("is not JSON")
	}
	return v, nil
}

// difference returns the merge patch that turns the old object into the next.
func difference(old, next map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range old {
		if _, stays := next[name]; !stays {
			patch[name] = nil
		}
	}
	for name, v := range next {
		was, known := old[name]
		object, isObject := v.(map[string]any)
		before, wasObject := was.(map[string]any)
		switch {
		case known && equal(was, v):
		case isObject && wasObject:
			patch[name] = difference(before, object)
		default:
			patch[name] = v
		}
	}
	return patch
}

// equal compares parsed JSON.
func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
