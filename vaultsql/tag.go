package vaultsql

import (
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// tag is the parsed tag of a field.
type tag struct {
	typ        vault.TokenType // empty for the default of the field's type
	containers []string        // nil for the default of the token's type
	index      bool
	dedup      bool
	expires    time.Duration // zero for never
	subject    string        // name of the field that identifies the person; may be empty
}

// tagKey is the key in struct tags.
const tagKey = "vault"

// parseTag reads the tag of a field.
func parseTag(field, text string) (*tag, error) {
	t := &tag{}
	if text == "" {
		return t, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		if err := t.add(field, strings.TrimSpace(word)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tag) add(field, word string) error {
	name, value, hasValue := strings.Cut(word, "=")
	switch {
	case word == "index":
		t.index = true
	case word == "dedup":
		t.dedup, t.index = true, true
	case hasValue && value == "":
		return fieldErrorf(field, "the tag has nothing after %q", word)
	case name == "type" && hasValue && t.typ == "":
		t.typ = vault.TokenType(value)
	case name == "container" && hasValue:
		t.containers = append(t.containers, value)
	case name == "subject" && hasValue && t.subject == "":
		t.subject = value
	case name == "expires" && hasValue && t.expires == 0:
		life, err := time.ParseDuration(value)
		if err != nil || life <= 0 {
			return fieldErrorf(field, "the tag needs a positive Go duration, such as 720h, and not %q", word)
		}
		t.expires = life
	case hasValue && (name == "type" || name == "expires" || name == "subject"):
		return fieldErrorf(field, "the tag has %s= twice", name)
	default:
		return fieldErrorf(field, "the tag has the unknown word %q; known are type=, container=, index, dedup, expires= and subject=", word)
	}
	return nil
}
