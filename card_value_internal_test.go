package vault

import (
	"encoding/json"
	"testing"
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
