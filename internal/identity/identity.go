// Package identity compares the signed claims of a workload with the identities
// that an application trusts. It verifies no signature and makes no request.
//
// An [Identity] names an issuer, an audience, and claims with the values that they
// must have. [Check] refuses an identity that would trust more than it says, and
// [Match] decides whether verified claims fit. Both compare bytes: letters of
// another case, other forms of the same Unicode character, another number with the
// same value, and an issuer with a slash at its end are all different.
package identity

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Identity is a workload that may act as an application.
type Identity struct {
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`
	// Claims maps the name of a claim, or a JSON Pointer, to the value that the
	// claim must have: a string, a json.Number or a bool.
	Claims map[string]any `json:"claims"`
	// Mark distinguishes the identity from an equal identity that was removed
	// earlier. It is set when the identity is stored.
	Mark string `json:"mark,omitempty"`
}

// Read reads an identity from its JSON form. [Check] finds the problems of its values.
func Read(r *form.Reader) Identity {
	id := Identity{Issuer: r.Text("issuer"), Audience: r.Text("audience")}
	claims := r.Value("claims")
	if !claims.IsZero() && claims.Kind() != jsonx.Object {
		r.Problem("claims", "must be of type %s", jsonx.Object)
	}
	for _, m := range claims.Members() {
		if id.Claims == nil {
			id.Claims = make(map[string]any, claims.Len())
		}
		id.Claims[m.Name] = scalar(m.Value)
	}
	return id
}

// UnmarshalJSON reads the stored form. It keeps the text of numbers.
func (id *Identity) UnmarshalJSON(text []byte) error {
	type plain Identity
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode((*plain)(id))
}

// scalar returns the Go value of a string, a number or a boolean, and nil for
// anything else.
func scalar(v jsonx.Value) any {
	switch v.Kind() {
	case jsonx.String:
		return v.Text()
	case jsonx.Number:
		return json.Number(v.Text())
	case jsonx.Bool:
		return v.Bool()
	default:
		return nil
	}
}

// Equal reports whether two identities that [Check] returned trust the same
// workloads in the same words.
func Equal(a, b Identity) bool {
	return a.Issuer == b.Issuer && a.Audience == b.Audience && maps.Equal(a.Claims, b.Claims)
}

// Same reports whether two lists have the same identities, in any order.
func Same(a, b []Identity) bool {
	return len(a) == len(b) && within(a, b) && within(b, a)
}

func within(a, b []Identity) bool {
	return !slices.ContainsFunc(a, func(x Identity) bool {
		return !slices.ContainsFunc(b, func(y Identity) bool { return Equal(x, y) })
	})
}

// Clone returns a copy of a list that shares no map with it. The copies have no marks.
func Clone(list []Identity) []Identity {
	out := slices.Clone(list)
	for i := range out {
		out[i].Claims, out[i].Mark = maps.Clone(out[i].Claims), ""
	}
	return out
}

// Marked returns a copy of a list in which each identity has a mark. The mark comes
// from the equal identity in old, or is new.
func Marked(list, old []Identity) []Identity {
	out := Clone(list)
	for i := range out {
		at := slices.IndexFunc(old, func(id Identity) bool { return id.Mark != "" && Equal(id, out[i]) })
		if out[i].Mark = rand.Text(); at >= 0 {
			out[i].Mark = old[at].Mark
		}
	}
	return out
}
