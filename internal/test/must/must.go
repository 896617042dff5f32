// Package must ends a test when a call fails that the test only prepares with, and
// checks calls that must fail.
package must

import "testing"

// Get returns a function that returns the result of a call, and ends the test if
// the call failed:
//
//	token := must.Get(c.GetToken(ctx, id))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test if a call failed.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
