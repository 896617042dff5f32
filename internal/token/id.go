package token

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Limits on token ids, in characters.
const (
	minID, maxID = expr.MinTokenID, expr.MaxTokenID

	// minTelling is a number of digits that an id and a number do not share
	// by chance.
	minTelling = 8
)

// PossibleID reports whether a token can have an id. Impossible ids are not
// looked up, because a database may reject them as text.
func PossibleID(id string) bool { return form.TextProblem(id) == "" && !form.Longer(id, maxID) }

// CanBeID reports whether some token can have an id. Other text must not become
// part of a path or an expression.
func CanBeID(id string) bool { return idProblem(id) == "" }

// IDProblem returns the problem with an id for this token, or "".
func (b *Body) IDProblem(id string) string {
	if problem := idProblem(id); problem != "" {
		return problem
	}
	if b.revealedBy(id) {
		return "must not contain the token's own data: ids appear in URLs and logs"
	}
	return ""
}

func idProblem(id string) string {
	n := utf8.RuneCountInString(id)
	switch {
	case n < minID || n > maxID:
		return fmt.Sprintf("must have %d to %d characters", minID, maxID)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return "must be valid Unicode text without control characters"
	case strings.ContainsAny(id, expr.NotInTokenID):
		return "must not contain any of # / \\ + ? [ ] | & = % < > { } ^ : or quotes"
	case strings.TrimSpace(id) != id:
		return "must not start or end with a space"
	case id == "search":
		return "is a reserved word"
	}
	return ""
}

// Alias evaluates an id expression.
func (b *Body) Alias(t *expr.Template, steps *admission.Budget) (string, error) {
	v, err := t.Eval(expr.Data(b.Data, jsonx.Value{}, steps))
	if err != nil {
		return "", err
	}
	if v.IsNull() {
		return "", errNoValue
	}
	return stringOf(v), nil
}

// revealedBy reports whether an id reveals the data: it is the whole data, or
// contains the card or account number, with or without separators.
func (b *Body) revealedBy(id string) bool {
	if id == stringOf(b.Data) {
		return true
	}
	number := b.secret()
	if number == "" {
		return false
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, id)
	return strings.Contains(id, number) || len(number) >= minTelling && strings.Contains(digits, number)
}

// RevealedLater reports whether the existing id of the token would contain
// the new data. A short number may be in any id by chance.
func (b *Body) RevealedLater(id string) bool {
	if b.Type.secret != nil && len(b.secret()) < minTelling {
		return false
	}
	return b.revealedBy(id)
}

// secret returns the number that must not be in the token's id.
func (b *Body) secret() string {
	if b.Type.secret == nil {
		return ""
	}
	return b.Type.secret(b.Data)
}
