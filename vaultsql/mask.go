package vaultsql

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault"
)

// Expressions of masks.
const (
	maskNone   = "{{ '' }}"                    // empty
	maskLength = "{{ data | reveal_last: 0 }}" // shows the length of a text
	maskLast4  = "{{ data | reveal_last: 4 }}" // the vault's default for text
)

// shortText is the number of characters from which on the default mask of a text
// shows its end. Four characters of a shorter text are too much of it.
const shortText = 10

// maskOf returns the mask of the token for some data, or "" for the default of its
// type. The default of vaultsql for text depends on the length of the text, so every
// change of the text sets the mask again. Data that shows as many characters as the
// text, such as its mask, has the same mask.
func (f *field) maskOf(data vault.JSON) string {
	var text string
	switch {
	case f.tag.mask != "":
		return f.tag.mask
	case f.typ() != vault.TypeGeneric || json.Unmarshal(data, &text) != nil:
		return ""
	case f.valueType() == bytesType || utf8.RuneCountInString(text) < shortText:
		return maskLength
	default:
		return maskLast4
	}
}
