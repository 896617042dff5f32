package vaulttest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// sought is one form of a value.
type sought struct {
	name string // name of the value
	how  string // description of the form
	form []byte
}

// soughtFor returns all forms of the values of a canary.
func soughtFor(c Canary) []sought {
	var all []sought
	all = append(all, formsOf("the card number", c.Card)...)
	var groups []string
	for group := range slices.Chunk([]byte(c.Card), 4) {
		groups = append(groups, string(group))
	}
	for separator, how := range map[string]string{" ": "with spaces", "-": "with dashes"} {
		all = append(all, sought{"the card number", how, []byte(strings.Join(groups, separator))})
	}
	all = append(all, formsOf("the social security number", c.SSN)...)
	for _, s := range formsOf("the social security number", strings.ReplaceAll(c.SSN, "-", "")) {
		s.how += ", without dashes"
		all = append(all, s)
	}
	return append(all, formsOf("the secret", c.Secret)...)
}

// formsOf returns the distinct forms of one value.
func formsOf(name, value string) []sought {
	raw := []byte(value)
	var all []sought
	add := func(how string, form []byte) {
		if !slices.ContainsFunc(all, func(s sought) bool { return bytes.Equal(s.form, form) }) {
			all = append(all, sought{name, how, form})
		}
	}
	add("in plain text", raw)
	letters := []rune(value)
	slices.Reverse(letters)
	add("reversed", []byte(string(letters)))
	bytewise := bytes.Clone(raw)
	slices.Reverse(bytewise)
	add("reversed", bytewise)
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			add("in base64", base64Inside(encoding, raw, offset))
		}
	}
	add("in hexadecimal", []byte(hex.EncodeToString(raw)))
	add("in hexadecimal", bytes.ToUpper([]byte(hex.EncodeToString(raw))))
	add("encoded for URLs", []byte(url.QueryEscape(value)))
	add("encoded for URLs", []byte(url.PathEscape(value)))
	add("escaped in JSON", jsonInside(value, true))
	add("escaped in JSON", jsonInside(value, false))
	return all
}

// base64Inside returns the base64 of a value inside a longer text, where the
// value starts at the given offset modulo 3. It leaves out characters that
// depend on the text around it.
func base64Inside(encoding *base64.Encoding, value []byte, offset int) []byte {
	text := []byte(encoding.EncodeToString(append(make([]byte, offset), value...)))
	text = text[(offset*8+5)/6:]
	if (offset+len(value))%3 != 0 {
		text = text[:len(text)-1]
	}
	return text
}

// jsonInside returns the JSON of a string without its quotes.
func jsonInside(value string, html bool) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(html)
	_ = e.Encode(value) // cannot fail for a string
	text := bytes.TrimSpace(buf.Bytes())
	return text[1 : len(text)-1]
}
