package vaultsql

import (
	"regexp"
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
	mask       string        // expression of the mask; empty for the default
	field      string        // name of the field in metadata; empty for a field outside of a struct
}

// tagKey is the key in struct tags.
const tagKey = "vault"

// words matches the words of a tag. A comma inside of {{ }} is part of an expression.
var words = regexp.MustCompile(`(?:\{\{.*?\}\}|[^,])+`)

// parseTag reads the tag of a field.
func parseTag(field, text string) (*tag, error) {
	t := &tag{}
	for _, word := range words.FindAllString(text, -1) {
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
	case !hasValue:
		return unknownWord(field, word)
	case value == "":
		return fieldErrorf(field, "the tag has nothing after %q", word)
	case name == "container":
		t.containers = append(t.containers, value)
	case name == "expires":
		return t.setExpires(field, word, value)
	default:
		return t.setText(field, word, name, value)
	}
	return nil
}

func unknownWord(field, word string) error {
	return fieldErrorf(field, "the tag has the unknown word %q; known are type=, container=, index, dedup, expires=, mask=, field= and subject=", word)
}

// setText sets a word with a text that may be given once.
func (t *tag) setText(field, word, name, value string) error {
	dst := map[string]*string{"type": (*string)(&t.typ), "subject": &t.subject, "field": &t.field, "mask": &t.mask}[name]
	switch {
	case dst == nil:
		return unknownWord(field, word)
	case *dst != "":
		return twice(field, name)
	case name == "mask":
		return t.setMask(field, value)
	}
	*dst = value
	return nil
}

func twice(field, name string) error { return fieldErrorf(field, "the tag has %s= twice", name) }

func (t *tag) setExpires(field, word, value string) error {
	if t.expires != 0 {
		return twice(field, "expires")
	}
	life, err := time.ParseDuration(value)
	if err != nil || life <= 0 {
		return fieldErrorf(field, "the tag needs a positive Go duration, such as 720h, and not %q", word)
	}
	t.expires = life
	return nil
}

// shortMask matches masks such as last4 and first1.
var shortMask = regexp.MustCompile(`^(first|last)([1-9])$`)

// setMask sets the expression of a mask.
func (t *tag) setMask(field, value string) error {
	short := shortMask.FindStringSubmatch(value)
	switch {
	case value == "none":
		t.mask = maskNone
	case short != nil && short[1] == "first":
		t.mask = "{{ data | reveal: " + short[2] + ", 0 }}"
	case short != nil:
		t.mask = "{{ data | reveal_last: " + short[2] + " }}"
	case strings.Contains(value, "{{"):
		t.mask = value
	default:
		return fieldErrorf(field, "the tag has the unknown mask %q; write none, last4, first1 (or another number up to 9), or an expression such as {{ data | last4 }}", value)
	}
	return nil
}
