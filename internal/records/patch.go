package records

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Form reads the parameters of an entity from JSON, which may also contain
// read-only fields of responses.
type Form struct {
	// Fields returns the problems that UnmarshalJSON of the parameters
	// reported.
	Fields func(error) map[string][]string
	// Shown replaces fields that responses show in another form than parameters
	// have. It may be nil.
	Shown func(jsonx.Value, *form.Problems) jsonx.Value
	// Optional are the fields for which null means the same as absent in a
	// replacement.
	Optional []string
}

// shownFields are the fields of responses that are not parameters.
var shownFields = []string{
	"id", "tenant_id", "created_by", "created_at", "modified_by", "modified_at", "key", "webhook_secret", "suspended",
}

// PatchText returns a caller's merge patch as JSON text.
func PatchText(patch any) ([]byte, error) {
	v, err := core.ParseJSON("", patch)
	if err != nil {
		return nil, err
	}
	if v.IsZero() {
		v = jsonx.NullValue()
	}
	return v.JSON(), nil
}

// Merge applies a JSON merge patch to the JSON form of a value and reads the
// result into dst. It also reads the patch alone, because merging a null
// would hide an unknown field.
func (f Form) Merge(dst json.Unmarshaler, current any, patch []byte) error {
	p, err := jsonx.Parse(patch, jsonx.Limits{})
	if err != nil {
		return fault.Input(err)
	}
	if p.Kind() != jsonx.Object {
		return fault.Field("", "must be an object")
	}
	now, err := jsonx.From(current)
	if err != nil {
		return err
	}
	bad := &form.Problems{}
	p = f.withoutShown(p, bad)
	alone := dst.UnmarshalJSON(p.JSON())
	bad.AddAll("", f.Fields(dst.UnmarshalJSON(jsonx.Merge(now, p).JSON())))
	bad.AddUnknown(f.Fields(alone))
	return fault.Of(bad)
}

// Replace reads a whole replacement into params. It ignores read-only fields,
// so that the JSON of a Get can be changed and put back.
func (f Form) Replace(data []byte, params json.Unmarshaler) error {
	v, err := jsonx.Parse(data, jsonx.Limits{})
	if err != nil || v.Kind() != jsonx.Object {
		return params.UnmarshalJSON(data) // reports the problem
	}
	for _, name := range f.Optional {
		if v.Get(name).IsNull() {
			v = v.Without(name)
		}
	}
	bad := &form.Problems{}
	v = f.withoutShown(v, bad)
	bad.AddAll("", f.Fields(params.UnmarshalJSON(v.JSON())))
	return fault.Of(bad)
}

// withoutShown returns an object without read-only fields, and with the others as
// parameters have them.
func (f Form) withoutShown(v jsonx.Value, bad *form.Problems) jsonx.Value {
	v = v.Without(shownFields...)
	if f.Shown == nil {
		return v
	}
	return f.Shown(v, bad)
}

// Fault returns the problems of a merge patch alone, for an entity that does
// not exist. It reads the patch into params and runs the checks on them. It
// ignores problems with fields that are not in the patch.
func (f Form) Fault(patch []byte, params json.Unmarshaler, checks ...func() error) error {
	if err := f.Merge(params, struct{}{}, patch); err != nil {
		return err
	}
	given, _ := jsonx.Parse(patch, jsonx.Limits{}) // Merge has parsed it
	for _, check := range checks {
		err := check()
		if bad, ok := errors.AsType[*fault.Invalid](err); ok {
			maps.DeleteFunc(bad.Fields, func(path string, _ []string) bool {
				name, _, _ := strings.Cut(path, ".")
				name, _, _ = strings.Cut(name, "[")
				return given.Get(name).IsZero()
			})
			err = fault.Of((*form.Problems)(bad))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
