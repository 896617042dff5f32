package vaultsql

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// masked evaluates the mask of a token whose data is the value.
func (t *shown) masked() string {
	body := token.Body{Type: token.TypeOf(string(t.Type))}
	data, err := jsonx.Parse(t.Data, jsonx.Limits{})
	if err != nil || body.Type == nil || t.Mask == nil {
		return ""
	}
	if body.Mask, err = jsonx.Parse(t.Mask, jsonx.Limits{}); err != nil {
		return ""
	}
	body.SetData(data, &form.Problems{})
	text := body.MaskedText(context.Background())
	if text == nil {
		return ""
	}
	return maskText(text)
}
