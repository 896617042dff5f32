package fault

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// prefix starts the text of every error of the vault.
const prefix = "vault: "

// prefixes are the package names at the start of error texts.
var prefixes = []string{prefix, "script: ", "storage: ", "httpserver: "}

// Text returns the text of an error without the package names at the start of
// its parts.
func Text(err error) string {
	s := err.Error()
	for _, p := range prefixes {
		s = strings.ReplaceAll(strings.TrimPrefix(s, p), ": "+p, ": ")
	}
	return s
}

// Wrap returns an error that describes what failed and wraps err. Its text
// names the vault once, whether or not err names it too.
func Wrap(err error, format string, args ...any) error {
	return &kindError{err, fmt.Sprintf(format, args...) + ": " + Text(err)}
}

// Detail returns the text of an error as a sentence for a response: the
// result of Text, capitalized, with a full stop.
func Detail(err error) string {
	s := Text(err)
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[size:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// FromDetail returns the error of a kind from the detail of a response. It is
// the inverse of Detail. For an empty detail it returns the kind itself.
func FromDetail(kind error, detail string) error {
	s := strings.TrimSuffix(detail, ".")
	if s == "" {
		return kind
	}
	first, size := utf8.DecodeRuneInString(s)
	if next, _ := utf8.DecodeRuneInString(s[size:]); !unicode.IsUpper(next) { // an acronym stays
		s = string(unicode.ToLower(first)) + s[size:]
	}
	return &kindError{kind, s}
}
