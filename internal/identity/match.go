package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Match returns nil if the claims match the identity. Otherwise its error says why
// not, for the operator; the caller must not see it. The claims are verified, and as
// a decoder of JSON returns them with numbers as json.Number.
func Match(id Identity, claims map[string]any) error {
	if issuer, _ := claims["iss"].(string); issuer != id.Issuer || issuer == "" {
		return errors.New("the claim iss is not the issuer")
	}
	if !audience(id.Audience, claims["aud"]) {
		return errors.New("the claim aud does not have the audience")
	}
	if len(id.Claims) == 0 {
		return errors.New("the identity names no claim")
	}
	for _, name := range slices.Sorted(maps.Keys(id.Claims)) {
		want := id.Claims[name]
		value, ok := find(claims, name)
		switch {
		case !ok:
			return fmt.Errorf("there is no claim %s", name)
		case holds(want, value):
			continue
		case kind(want) == kind(value):
			return fmt.Errorf("the claim %s has another value", name)
		case kind(value) == array:
			return fmt.Errorf("no element of the claim %s has the value", name)
		default:
			return fmt.Errorf("the claim %s is %s, and the identity has %s", name, kind(value), kind(want))
		}
	}
	return nil
}

// audience reports whether aud is an audience, or a list of texts with it.
func audience(want string, aud any) bool {
	switch aud := aud.(type) {
	case string:
		return want != "" && aud == want
	case []any:
		return want != "" && slices.Contains(aud, any(want))
	default:
		return false
	}
}

// find returns the claim with a name. It never steps into an array.
func find(claims map[string]any, name string) (any, bool) {
	steps, ok := pointer(name)
	if !ok {
		return nil, false
	}
	var at any = claims
	for _, step := range steps {
		object, _ := at.(map[string]any)
		if at, ok = object[step]; !ok {
			return nil, false
		}
	}
	return at, true
}

// holds reports whether a claim, or an element of a claim that is an array, has the
// value.
func holds(want, claim any) bool {
	list, ok := claim.([]any)
	if !ok {
		return equal(want, claim)
	}
	return slices.ContainsFunc(list, func(e any) bool { return equal(want, e) })
}

// equal compares two values of the same type. Any other two values differ.
func equal(want, claim any) bool {
	switch want := want.(type) {
	case string:
		text, ok := claim.(string)
		if prefix, open := star(want); open {
			return ok && strings.HasPrefix(text, prefix)
		}
		return ok && text == want
	case json.Number:
		number, ok := claim.(json.Number)
		return ok && number == want
	case bool:
		yes, ok := claim.(bool)
		return ok && yes == want
	default:
		return false
	}
}

// array is the kind of a claim with elements.
const array = "an array"

// kind names the type of a claim in an error.
func kind(claim any) string {
	switch claim.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return array
	case map[string]any:
		return "an object"
	default:
		return "null"
	}
}
