package vaultsql

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/seed-72ea4aab/vault"
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

// The default masks of token types. All of them write the letter X.
const (
	maskLast4      = "{{ data | reveal_last: 4 }}"
	maskNineDigits = "{{ data | reveal: 0, 4, 'X', '-' }}"
	maskCardNumber = "{{ data.number | reveal_last: 4 }}"
	maskAccount    = "{{ data.account_number | reveal_last: 4 }}"
)

// isPlain reports whether the data of a token is certainly the value. The
// vault returns either the value or its mask, and does not mark which. Data
// that the current mask cannot have produced is the value.
func (t *shown) isPlain() bool {
	if t.Data == nil || t.Mask == nil {
		return t.Data != nil // without a mask, the vault shows the value or nothing
	}
	switch t.Type {
	case vault.TypeGeneric:
		return t.isPlainText()
	case vault.TypeCard:
		return isPlainMember(t, "number", maskCardNumber)
	case vault.TypeBank:
		return isPlainMember(t, "account_number", maskAccount)
	default: // digits, and dashes between them
		mask := maskText(t.Mask)
		return (mask == maskLast4 || mask == maskNineDigits) && isDigits(maskText(t.Data))
	}
}

func (t *shown) isPlainText() bool {
	var text, mask string
	if json.Unmarshal(t.Data, &text) != nil || json.Unmarshal(t.Mask, &mask) != nil {
		return false
	}
	shows := 0
	switch mask {
	case maskLast4:
		shows = 4
	case maskNothing:
	default:
		return false
	}
	letters := []rune(text)
	if len(letters) > shows {
		letters = letters[:len(letters)-shows]
	}
	return strings.Trim(string(letters), "X") != ""
}

// isPlainMember is isPlain for objects whose secret is a member with digits.
func isPlainMember(t *shown, name, want string) bool {
	var data, mask map[string]any
	if json.Unmarshal(t.Data, &data) != nil || json.Unmarshal(t.Mask, &mask) != nil {
		return false
	}
	secret, _ := data[name].(string)
	return mask[name] == want && isDigits(secret)
}

// isDigits reports whether a text is not empty and has no X.
func isDigits(text string) bool { return text != "" && !strings.Contains(text, "X") }
