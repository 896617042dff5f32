package core

import (
	"context"
	"encoding/json"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Document reads a whole document from a caller, within the size limit. It does
// not parse text, a json.RawMessage, that is too long.
func (op *Op) Document(ctx context.Context, x any) (jsonx.Value, error) {
	most := op.Vault.MaxBytes
	tooLarge := fault.New(fault.ErrTooLarge, "the JSON must have at most %d bytes", most)
	text, isText := x.(json.RawMessage)
	if len(text) > most {
		return jsonx.Value{}, tooLarge
	}
	if err := RoomForText(ctx, text); err != nil {
		return jsonx.Value{}, err
	}
	v, err := ParseJSON("", x)
	// The size of a value is an estimate, so a value that seems too large is
	// measured.
	if err == nil && !isText && v.Size() > most && len(v.JSON()) > most {
		return jsonx.Value{}, tooLarge
	}
	return v, err
}

// ParseJSON reads a Go value or JSON text that a caller gave for a field. A nil
// value is absent.
func ParseJSON(path string, x any) (jsonx.Value, error) {
	if x == nil {
		return jsonx.Value{}, nil
	}
	v, err := jsonx.From(x)
	if err != nil {
		return v, fault.Of(form.Of(path, err))
	}
	return v, nil
}
