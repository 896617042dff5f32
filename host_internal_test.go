package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/script"
)

func TestCardDataValue(t *testing.T) {
	t.Parallel()
	for _, card := range []CardData{
		{},
		{Number: "4242424242424242"},
		{Number: "4242424242424242", ExpirationMonth: 2, ExpirationYear: 2031, CVC: "123"},
		{Number: "not \"valid\" \xff\u2028", ExpirationYear: -1, CVC: "<&>"},
	} {
		text, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		var want, got CardData
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(card.value().JSON(), &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("the value of a card decodes to %+v, its JSON to %+v", got, want)
		}
		names := map[string]bool{}
		for _, m := range card.value().Members() {
			names[m.Name] = true
		}
		var members map[string]any
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			if !names[name] {
				t.Errorf("the value of a card has no member %s", name)
			}
		}
		if len(names) != len(members) {
			t.Errorf("the value of a card has %d members, its JSON %d", len(names), len(members))
		}
	}
}

// Running code reads errors that are made for callers, and nothing of others.
func TestHostErrors(t *testing.T) {
	t.Parallel()
	fields := map[string][]string{"data": {"is required"}}
	own := &script.HostError{Code: "EACCES", Message: "no"}
	for name, c := range map[string]struct {
		err  error
		want *script.HostError
	}{
		"the host's own": {fmt.Errorf("fetch: %w", own), own},
		"of code":        {&script.Error{Kind: script.Thrown, Status: 402, Title: "No Money", Messages: fields}, &script.HostError{Status: 402, Message: "No Money", Errors: fields}},
		"of fields":      {&InvalidError{Fields: fields}, &script.HostError{Status: 400, Message: "One or more validation errors occurred.", Errors: fields}},
		"of a sentinel":  {fault.New(ErrNotFound, "There is no such token."), &script.HostError{Status: 404, Message: "There is no such token."}},
		"of the runtime": {script.ErrBusy, &script.HostError{Status: 429, Message: "too many requests"}},
		"of the machine": {errors.New("secret of the database"), &script.HostError{Status: 500, Message: "the operation failed"}},
	} {
		if diff := cmp.Diff(c.want, hostError(c.err)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
