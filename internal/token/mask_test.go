package token

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A stored mask that exceeds its budget shows nothing.
func TestStoredMasksAreBounded(t *testing.T) {
	t.Parallel()
	objects := must.Get(jsonx.Parse([]byte("["+strings.TrimSuffix(strings.Repeat(`{"k":1},`, 900), ",")+"]"), jsonx.Limits{}))(t)
	b := Body{Type: TypeOf(Generic), Data: objects, Mask: jsonx.StringValue("{{ data | size }}")}
	if got := b.MaskedText(t.Context()); string(got) != "900" || b.Masked(t.Context()).Text() != "900" {
		t.Errorf("a mask within its budget gives %s", got)
	}
	b.Mask = jsonx.StringValue("{{ data | json: '$[?@.k && count($[?count($[?@.zz])==1])==0].k' }}")
	if got := b.MaskedText(t.Context()); got != nil || !b.Masked(t.Context()).IsZero() {
		t.Errorf("a mask over its budget gives %s", got)
	}
}

// The defaults of a type are evaluated over data of any size, and are not
// charged to the request.
func TestTypeDefaultsAreNotCharged(t *testing.T) {
	t.Parallel()
	text := jsonx.StringValue(strings.Repeat("4", 4<<20))
	b := Body{Type: TypeOf(Generic), Data: text}
	steps := admission.RequestBudget(t.Context(), 1, 0)
	must.Same(t, "length of the mask", 4<<20+2, len(must.Get(b.NewMaskedText(t.Context(), steps))(t)))
	b.Type = TypeOf(SocialSecurityNumber)
	must.Same(t, "length of the fingerprint's value", 4<<20, len(must.Get(b.fingerprintValue(steps))(t)))
	must.Same(t, "indexes, and steps used", []any{3, 0}, []any{len(b.indexValues(steps, nil)), steps.Used()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Mask = text
	must.Fail(b.NewMaskedText(ctx, steps))(t, "a mask without expressions", nil)
}
