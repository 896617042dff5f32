package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestStatusOfEachError checks the table from errors to statuses.
func TestStatusOfEachError(t *testing.T) {
	t.Parallel()
	for want, errs := range map[int][]error{
		400: {vault.ErrInvalid, &vault.InvalidError{}},
		401: {vault.ErrUnauthenticated},
		403: {vault.ErrForbidden},
		404: {vault.ErrNotFound, errNoRoute},
		405: {errMethod},
		408: {errSlowBody},
		409: {vault.ErrConflict},
		413: {vault.ErrTooLarge, fault.New(vault.ErrTooLarge, "x")},
		415: {errMediaType},
		422: {vault.ErrCode, &script.Error{Kind: script.Invalid}},
		429: {vault.ErrBusy, errRateLimit},
		402: {&script.Error{Kind: script.Thrown, Status: 402}},
		500: {errors.New("x"), vault.ErrClosed, vault.ErrWrongKey, context.DeadlineExceeded, &script.Error{Kind: script.Thrown}},
		503: {errNotReady, errDraining, vault.ErrKeyDenied, vault.ErrKeyUnavailable},
	} {
		for _, err := range errs {
			for _, err := range []error{err, fmt.Errorf("wrapped: %w", err), &refusal{err, nil}} {
				if got := describe(err); got.Status != want || got.Detail == "" || StatusOf(err) != want {
					t.Errorf("%v: %+v, want %d", err, got, want)
				}
			}
		}
	}
}

// A program's own handlers can respond with errors as the API does.
func TestWriteError(t *testing.T) {
	t.Parallel()
	large := http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader("large")), 3)
	_, tooMuch := io.ReadAll(large)
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"of the vault":   {vault.ErrForbidden, `{"title":"Forbidden","status":403,"detail":"The caller has no permission for this."}`},
		"about a field":  {invalid("a", "is bad"), `{"title":"One or more validation errors occurred.","status":400,"detail":"The request is invalid; errors lists what is wrong with each field.","errors":{"a":["is bad"]}}`},
		"a large body":   {tooMuch, `{"title":"Request Entity Too Large","status":413,"detail":"The body must have at most 3 bytes."}`},
		"a slow body":    {os.ErrDeadlineExceeded, `{"title":"Request Timeout","status":408,"detail":"The body did not arrive in time."}`},
		"something else": {errors.New("4242424242424242"), `{"title":"Internal Server Error","status":500,"detail":"` + detailInternal + `"}`},
	} {
		res := httptest.NewRecorder()
		WriteError(res, tc.err)
		if got := strings.TrimSpace(res.Body.String()); got != tc.want || StatusOf(tc.err) != res.Code || !strings.Contains(tc.want, fmt.Sprintf(`"status":%d`, res.Code)) || res.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s, want %s", name, res.Code, got, tc.want)
		}
	}
}

// picky is a runtime that rejects all code.
type picky struct{ err error }

func (p picky) Check(context.Context, script.Program) error { return p.err }
func (p picky) Close() error                                { return nil }
func (p picky) Run(context.Context, script.Program, json.RawMessage, script.Host) (json.RawMessage, error) {
	return nil, p.err
}

func TestInvalidCodeIs422(t *testing.T) {
	t.Parallel()
	messages := map[string][]string{"error": {"Unexpected token"}}
	for _, err := range []error{
		&script.Error{Kind: script.Invalid, Status: 422, Title: script.DefaultTitle, Messages: messages},
		vault.ErrCode,
	} {
		w := worldOf(t, vaulttest.Open(t, ":memory:", &vault.Config{Runtime: picky{err}}), nil)
		for path, body := range map[string]string{
			"/reactors": reactorBody,
			"/proxies":  `{"name":"x","destination_url":"https://example.com","request_transform":{"code":"x"}}`,
		} {
			got := w.do("POST", path, w.ManagementKey, body).want(t, http.StatusUnprocessableEntity).decode(t)
			if errors.As(err, new(*script.Error)) {
				if diff := cmp.Diff(map[string]any{"error": []any{"Unexpected token"}}, got["errors"]); diff != "" || got["title"] != script.DefaultTitle {
					t.Errorf("%v %s", got, diff)
				}
			}
		}
	}
}

func TestABusyVaultIs429WithRetryAfter(t *testing.T) {
	t.Parallel()
	w := worldOf(t, vaulttest.Open(t, ":memory:", &vault.Config{Runtime: picky{vault.ErrBusy}}), nil)
	res := w.do("POST", "/reactors", w.ManagementKey, reactorBody)
	res.wantError(t, http.StatusTooManyRequests)
	if res.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
