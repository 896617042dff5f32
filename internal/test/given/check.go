package given

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// SameApplication compares the visible fields of applications.
func SameApplication(t *testing.T, what string, got, want *vault.Application) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(vault.Application{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Intact returns a function that checks a verification, which must find nothing.
func Intact(t testing.TB, what string) func(*evidence.Report, error) {
	return func(report *evidence.Report, err error) {
		t.Helper()
		if err != nil || !report.OK() {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
	}
}

// WantData compares the JSON of a value, byte for byte.
func WantData(t testing.TB, what string, got vault.JSON, want string) {
	t.Helper()
	Same(t, what, string(got), want)
}

// WantAllowed checks that a call succeeded if it is allowed, and else that it was
// forbidden.
func WantAllowed(t testing.TB, what string, err error, allowed bool) {
	t.Helper()
	if allowed {
		must.Match(t, what, err, nil)
		return
	}
	must.Match(t, what, err, vault.ErrForbidden)
}

// WantFields checks for an InvalidError about exactly these fields.
func WantFields(t testing.TB, what string, err error, paths ...string) {
	t.Helper()
	var bad *vault.InvalidError
	if !errors.As(err, &bad) {
		t.Errorf("%s: %v, want an InvalidError about %q", what, err, paths)
		return
	}
	got := slices.Sorted(maps.Keys(bad.Fields))
	slices.Sort(paths)
	if diff := cmp.Diff(paths, got); diff != "" {
		t.Errorf("%s: fields (-want +got):\n%s\n%v", what, diff, err)
	}
}

// WantSilent checks that an error quotes none of the values.
func WantSilent(t testing.TB, err error, values ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, v := range values {
		if strings.Contains(err.Error(), v) {
			t.Errorf("the error reveals a value: %v", err)
		}
	}
}

// Eventually waits until a condition holds. It waits for as long as the test may
// run.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: not before the test ended", what)
		case <-tick.C:
		}
	}
}

// Same fails the test unless two values are equal.
func Same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	must.Same(t, what, want, got)
}

// Field returns a text field of a JSON object, at a dotted path.
func Field(t testing.TB, doc vault.JSON, path string) string {
	t.Helper()
	var v any
	if doc == nil {
		return ""
	}
	must.Do(t, doc.Decode(&v))
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	s, _ := v.(string)
	return s
}
