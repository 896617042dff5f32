package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := `stored   {"number":"XXXXXXXXXXXX4242"}
charged  {"charge_id":"ch_1","last4":"4242"}
stored   {"number":"XXXXXXXXXXXX0002"}
declined The card was declined.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
