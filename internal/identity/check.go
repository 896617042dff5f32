package identity

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Limits of the identities of one application.
const (
	maxIdentities = 10
	maxClaims     = 20
	maxName       = 200  // characters of the name of a claim
	maxText       = 1000 // characters of an issuer, an audience or a value
)

// DefaultMust is the claim that an identity must name if its issuer requires no
// others.
const DefaultMust = "sub"

// forbidden are the claims that say something about the JWT, and not about the
// workload. The vault checks them itself.
var forbidden = []string{"iss", "aud", "exp", "nbf", "iat", "jti"}

// Check validates identities, whose list is the field at path, and returns them in
// their stored form. Must returns the claims of which an identity of an issuer names
// at least one, and whether the server has the issuer. An empty list means
// [DefaultMust].
func Check(path string, list []Identity, must func(issuer string) ([]string, bool), bad *form.Problems) []Identity {
	if len(list) > maxIdentities {
		bad.Add(path, "must have at most %d entries", maxIdentities)
		return nil
	}
	out := make([]Identity, len(list))
	for i, id := range list {
		out[i] = check(jsonx.JoinIndex(path, i), id, must, bad)
	}
	return out
}

func check(path string, id Identity, must func(string) ([]string, bool), bad *form.Problems) Identity {
	checkText(bad, jsonx.JoinName(path, "audience"), id.Audience)
	var names []string
	known := checkText(bad, jsonx.JoinName(path, "issuer"), id.Issuer) && checkIssuer(bad, jsonx.JoinName(path, "issuer"), id.Issuer)
	if known {
		if names, known = must(id.Issuer); !known {
			bad.Add(jsonx.JoinName(path, "issuer"), "%s", unknownIssuer(id.Issuer, must))
		}
	}
	at := jsonx.JoinName(path, "claims")
	if len(id.Claims) > maxClaims {
		bad.Add(at, "must have at most %d entries", maxClaims)
		return id
	}
	claims := make(map[string]any, len(id.Claims))
	for _, name := range slices.Sorted(maps.Keys(id.Claims)) {
		claims[name] = checkClaim(at, name, id.Claims[name], bad)
	}
	id.Claims = claims
	if known && !exact(claims, names) {
		bad.Add(at, "must have an exact value, without a star, for %s", oneOf(names))
	}
	return id
}

// checkText checks a required text. It reports whether the text is valid.
func checkText(bad *form.Problems, path, text string) bool {
	switch {
	case text == "":
		bad.Add(path, "is required")
		return false
	case form.Longer(text, maxText):
		bad.Add(path, "must have at most %d characters", maxText)
		return false
	}
	return checkBytes(bad, path, text)
}

// checkBytes checks that a text can be compared byte for byte. U+FFFD takes the
// place of every invalid character when JSON is decoded, so that different claims
// would be equal to it.
func checkBytes(bad *form.Problems, path, text string) bool {
	if strings.ContainsRune(text, utf8.RuneError) && utf8.ValidString(text) {
		bad.Add(path, "must not contain the character U+FFFD")
		return false
	}
	return form.CheckText(bad, path, text)
}

func checkIssuer(bad *form.Problems, path, issuer string) bool {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(issuer, "?#") {
		bad.Add(path, "must be an https URL without a user name, a query and a fragment")
		return false
	}
	return true
}

// unknownIssuer returns the message about an issuer that the server does not have.
// It does not list the others, because they can belong to other tenants.
func unknownIssuer(issuer string, must func(string) ([]string, bool)) string {
	const unknown = "is not an issuer of this server; its operator adds it with --issuer"
	if _, ok := must(issuer + "/"); ok {
		return "must end with a slash, as the issuer of this server does"
	}
	if _, ok := must(strings.TrimSuffix(issuer, "/")); ok && strings.HasSuffix(issuer, "/") {
		return "must not end with a slash, because the issuer of this server has none"
	}
	return unknown
}

// checkClaim checks one claim and returns its value as it is stored.
func checkClaim(path, name string, value any, bad *form.Problems) any {
	at := jsonx.JoinName(path, name)
	steps, ok := pointer(name)
	switch {
	case name == "" || form.Longer(name, maxName):
		bad.Add(path, "must have names of 1 to %d characters", maxName)
	case !ok:
		bad.Add(at, `is not a JSON Pointer: "~" may only stand before 0 or 1`)
	case slices.Contains(forbidden, steps[0]):
		bad.Add(at, "is not permitted here: %s describe the JWT and are checked by the vault", strings.Join(forbidden, ", "))
	default:
		checkBytes(bad, at, name)
	}
	if text, ok := value.(string); ok {
		checkValue(bad, at, text)
		return text
	}
	v, _ := jsonx.From(value) // a value without a JSON form is absent
	stored := scalar(v)
	switch stored := stored.(type) {
	case nil:
		bad.Add(at, "must be a string, a number or a boolean")
	case string:
		checkValue(bad, at, stored)
	case json.Number:
		if len(stored) > maxText {
			bad.Add(at, "must have at most %d characters", maxText)
		}
	}
	return stored
}

// checkValue checks the string that a claim must be equal to, or begin with.
func checkValue(bad *form.Problems, path, text string) {
	prefix, _ := star(text)
	switch {
	case form.Longer(text, maxText):
		bad.Add(path, "must have at most %d characters", maxText)
	case strings.Contains(prefix, "*"):
		bad.Add(path, `may have a star only as its last character, after ":" or "/"`)
	default:
		checkBytes(bad, path, text)
	}
}

// star splits a value that ends with a star after ":" or "/".
func star(text string) (prefix string, ok bool) {
	if strings.HasSuffix(text, ":*") || strings.HasSuffix(text, "/*") {
		return strings.TrimSuffix(text, "*"), true
	}
	return text, false
}

// exact reports whether one of the claims has an exact value. A claim has the same
// name in all its spellings: sub and /sub.
func exact(claims map[string]any, names []string) bool {
	for name, value := range claims {
		if text, ok := value.(string); ok {
			if _, open := star(text); open || text == "" {
				continue
			}
		}
		steps, ok := pointer(name)
		if ok && value != nil && slices.ContainsFunc(required(names), func(must string) bool {
			want, ok := pointer(must)
			return ok && slices.Equal(steps, want)
		}) {
			return true
		}
	}
	return false
}

func required(names []string) []string {
	if len(names) == 0 {
		return []string{DefaultMust}
	}
	return names
}

func oneOf(names []string) string {
	names = required(names)
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}

// pointer returns the steps of a JSON Pointer, or of the name of a top-level claim.
func pointer(name string) (steps []string, ok bool) {
	rest, ok := strings.CutPrefix(name, "/")
	if !ok {
		return []string{name}, true
	}
	steps = strings.Split(rest, "/")
	for i, step := range steps {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(step)
		if strings.Contains(plain, "~") {
			return nil, false
		}
		steps[i] = strings.NewReplacer("~0", "~", "~1", "/").Replace(step)
	}
	return steps, true
}
