package relay

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// isBasic reports whether a value of Authorization has the scheme Basic. Expressions are
// then filled in only within its base64.
func isBasic(value string) bool {
	scheme, _, _ := strings.Cut(strings.ReplaceAll(value, "\t", " "), " ")
	return strings.EqualFold(scheme, "Basic")
}

// basicText returns the plain text of a value of Authorization with the scheme Basic,
// and where its base64 begins. The base64 must be canonical, and the text must be
// UTF-8 with a colon.
func basicText(value string) (text string, at int, ok bool) {
	scheme, rest, _ := strings.Cut(value, " ")
	encoded := strings.TrimLeft(rest, " ")
	plain, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !strings.EqualFold(scheme, "Basic") || err != nil || strings.ContainsAny(encoded, "\r\n") || !utf8.Valid(plain) || !bytes.ContainsRune(plain, ':') {
		return "", 0, false
	}
	return string(plain), len(value) - len(encoded), true
}

// base64Forms returns what base64 of any text that contains this one contains: for
// each of the three places at which it can begin, the characters that depend on
// nothing else. At the end of a text there is a further character, and padding.
func base64Forms(text string) (forms []string) {
	for before := range 3 {
		padded := base64.StdEncoding.EncodeToString([]byte("\x00\x00"[:before] + text))
		first, whole := (8*before+5)/6, 8*(before+len(text))/6
		forms = append(forms, padded[first:whole], strings.TrimRight(padded[first:], "="), padded[first:])
	}
	return forms
}

// latin1Forms returns a text as programs repeat it that read its UTF-8 as Latin-1, or
// that write it in Latin-1, as many do with headers.
func latin1Forms(text string) []string {
	var read []rune
	var written []byte
	for _, b := range []byte(text) {
		read = append(read, rune(b))
	}
	for _, r := range text {
		if r > 0xFF {
			return []string{string(read)}
		}
		written = append(written, byte(r))
	}
	return []string{string(read), string(written)}
}
