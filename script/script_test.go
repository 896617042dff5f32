package script_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

func TestErrorText(t *testing.T) {
	t.Parallel()
	secret := map[string][]string{"error": {"4242424242424242"}}
	for want, e := range map[string]*script.Error{
		"script: the code failed (timeout)":                              {Kind: script.Timeout, Messages: secret},
		"script: the code failed (memory)":                               {Kind: script.Memory, Messages: secret},
		"script: the code failed (thrown) at line 3, called from line 7": {Kind: script.Thrown, Name: "4242424242424242", Messages: secret, Frames: []script.Frame{{Function: "4242424242424242", Line: 3}, {Line: 7}}},
		"script: the code failed (invalid) at line 1":                    {Kind: script.Invalid, Title: "4242424242424242", Frames: []script.Frame{{Line: 1}}},
	} {
		must.Same(t, "the text", want, e.Error())
		if got := errors.Is(fmt.Errorf("wrapped: %w", e), script.ErrInvalid); got != (e.Kind == script.Invalid) {
			t.Errorf("%s: errors.Is(err, ErrInvalid) is %t", e.Kind, got)
		}
		if got := errors.Is(fmt.Errorf("wrapped: %w", e), script.ErrTimeout); got != (e.Kind == script.Timeout) {
			t.Errorf("%s: errors.Is(err, ErrTimeout) is %t", e.Kind, got)
		}
	}
}
