// Package must ends a test when a call fails that the test only prepares with, and
// checks calls that must fail.
package must

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

// Match reports a call whose error is not the expected one. Nil means that the call
// succeeds.
func Match(t testing.TB, what string, err, want error) {
	t.Helper()
	text, ok := errors.AsType[textError](want)
	if ok && (err == nil || !strings.Contains(err.Error(), string(text))) || !ok && !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// Text returns an expected error that stands for every error with a text. It panics
// without a text, because any error has that.
func Text(part string) error {
	if part == "" {
		panic("must: Text without a text")
	}
	return textError(part)
}

type textError string

func (t textError) Error() string { return "an error with the text " + strconv.Quote(string(t)) }

// Fail returns a function that is Match for a call with a result:
//
//	must.Fail(c.GetToken(ctx, id))(t, "a deleted token", vault.ErrNotFound)
func Fail[T any](_ T, err error) func(t testing.TB, what string, want error) {
	return func(t testing.TB, what string, want error) {
		t.Helper()
		Match(t, what, err, want)
	}
}

// Err returns the error of a call with a result.
func Err[T any](_ T, err error) error { return err }

// Same reports the differences between what a test wants and what it got.
func Same(t testing.TB, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if reflect.DeepEqual(want, got) { // cmp alone takes several times as long
		return
	}
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Contain reports a text without a part that it must have.
func Contain(t testing.TB, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: %q lacks %q", what, text, part)
	}
}

// Lack reports a text with a part that it must not have, such as a secret.
func Lack(t testing.TB, what, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%s: %q has %q", what, text, part)
	}
}
