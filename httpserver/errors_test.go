package httpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
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
		"without fields": {fmt.Errorf("patient 7: %w", vault.ErrInvalid), `{"title":"Bad Request","status":400,"detail":"The request is invalid."}`},
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

// vaultErrors are the errors of package vault by name, and the errors that a program
// gets from it in other forms.
var vaultErrors = map[string]error{
	"ErrInvalid": vault.ErrInvalid, "ErrUnauthenticated": vault.ErrUnauthenticated, "ErrForbidden": vault.ErrForbidden,
	"ErrNotFound": vault.ErrNotFound, "ErrConflict": vault.ErrConflict, "ErrInProgress": vault.ErrInProgress,
	"ErrWithdrawn": vault.ErrWithdrawn, "ErrTooLarge": vault.ErrTooLarge, "ErrBusy": vault.ErrBusy,
	"ErrUnavailable": vault.ErrUnavailable, "ErrCode": vault.ErrCode, "ErrTimeout": vault.ErrTimeout,
	"ErrUnreachable": vault.ErrUnreachable, "ErrNoRuntime": vault.ErrNoRuntime, "ErrWrongKey": vault.ErrWrongKey,
	"ErrKeyDenied": vault.ErrKeyDenied, "ErrKeyUnavailable": vault.ErrKeyUnavailable, "ErrClosed": vault.ErrClosed,
	"ErrInTx": vault.ErrInTx, "ErrWebhook": vault.ErrWebhook, "ErrImportPause": vault.ErrImportPause,
	"InvalidError": invalid("a", "is bad"), "ConflictError": &vault.ConflictError{Fields: map[string][]string{"a": {"is taken"}}},

	"a reason":      fault.LimitedTo("api.stripe.com"),
	"a missing one": fault.ErrNoToken,
	"code":          &script.Error{Kind: script.Thrown, Status: 402, Title: "Payment Required"},
	"invalid code":  &script.Error{Kind: script.Invalid},
	"a slow body":   errSlowBody,
	"storage":       storage.ErrSlow,
}

// TestVaultErrorsAreComplete looks for exported errors of package vault that
// vaultErrors lacks.
func TestVaultErrorsAreComplete(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("../*.go"))(t)
	found := 0
	for _, name := range files {
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for _, id := range n.Names {
					if strings.HasPrefix(id.Name, "Err") {
						found++
						if vaultErrors[id.Name] == nil {
							t.Errorf("%s is missing", id.Name)
						}
					}
				}
			case *ast.TypeSpec:
				if strings.HasSuffix(n.Name.Name, "Error") && n.Name.IsExported() && vaultErrors[n.Name.Name] == nil {
					t.Errorf("%s is missing", n.Name.Name)
				}
			case *ast.FuncDecl:
				return false
			}
			return true
		})
	}
	if found < 20 {
		t.Errorf("found only %d errors", found)
	}
}

// secret is a text of a program that must not leave it.
const secret = "jane@clinic.example"

// alike is an error of a program that passes for one of the vault.
type alike struct{ err error }

func (e alike) Error() string        { return secret }
func (e alike) Is(target error) bool { return errors.Is(e.err, target) }

// around has the ways in which a program adds its text to an error.
var around = map[string]func(error) error{
	"before":       func(err error) error { return fmt.Errorf(secret+": %w", err) },
	"after":        func(err error) error { return fmt.Errorf("%w: "+secret, err) },
	"two wrapped":  func(err error) error { return fmt.Errorf("%w and %w", errors.New(secret), err) },
	"joined first": func(err error) error { return errors.Join(errors.New(secret), err) },
	"joined last":  func(err error) error { return errors.Join(err, errors.New(secret)) },
	"of a URL":     func(err error) error { return &url.Error{Op: "Get", URL: "https://" + secret, Err: err} },
	"of its own":   func(err error) error { return alike{err} },
	"of a panic":   func(err error) error { return fault.Wrap(err, secret) },
	"two vaults":   func(err error) error { return errors.Join(fmt.Errorf(secret+": %w", vault.ErrNotFound), err) },
	"two kinds":    func(err error) error { return errors.Join(err, fmt.Errorf("%w: "+secret, vault.ErrForbidden)) },
}

// Only the vault's own sentences leave, whatever text a program puts around an error
// of the vault, at any depth.
func TestErrorsShowOnlySentencesOfTheVault(t *testing.T) {
	t.Parallel()
	var cause error
	v := vaulttest.New(t)
	api := Handler(v.Vault, &Options{Authenticate: func(*http.Request) (*vault.Client, error) { return nil, cause }})
	writers := map[string]func(http.ResponseWriter, *http.Request, error){
		"WriteError":  func(w http.ResponseWriter, _ *http.Request, err error) { WriteError(w, err) },
		"ErrorWriter": (&ErrorWriter{Logger: slog.New(slog.DiscardHandler)}).Write,
		"Authenticate": func(w http.ResponseWriter, r *http.Request, err error) {
			cause = err
			api.ServeHTTP(w, r)
		},
	}
	show := func(path string, write func(http.ResponseWriter, *http.Request, error), err error) (int, string) {
		res := httptest.NewRecorder()
		write(res, httptest.NewRequest(http.MethodGet, path, nil), err)
		return res.Code, fmt.Sprint(res.Header(), res.Body)
	}
	for name, err := range vaultErrors {
		for first, wrap := range around {
			for second, again := range around {
				wrapped := again(wrap(err))
				for by, write := range writers {
					for _, path := range []string{"/tokens", "/proxy"} {
						if _, text := show(path, write, wrapped); strings.Contains(text, secret) {
							t.Errorf("%s in %s %s, by %s at %s: %s", name, first, second, by, path, text)
						}
					}
				}
			}
			if strings.HasPrefix(first, "two ") || first == "of its own" {
				continue
			}
			status, text := show("/tokens", writers["WriteError"], err)
			if gotStatus, got := show("/tokens", writers["WriteError"], wrap(err)); gotStatus != status || got != text {
				t.Errorf("%s in %s: %d %s, want %d %s", name, first, gotStatus, got, status, text)
			}
		}
	}
}

// The log has the cause of a server error under the trace id of its response, and the
// response does not mention a log that does not exist.
func TestErrorWriterLogsTheCause(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	errs := &ErrorWriter{Logger: slog.New(slog.NewTextHandler(&log, nil)), Prefix: "BT-"}
	mux := http.NewServeMux()
	var cause error
	mux.HandleFunc("GET /patients/{id}", func(w http.ResponseWriter, r *http.Request) { errs.Write(w, r, cause) })
	get := func(ctx context.Context, header ...string) *httptest.ResponseRecorder {
		res, req := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/patients/7", nil)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		log.Reset()
		mux.ServeHTTP(res, req)
		return res
	}
	for status, err := range map[int]error{500: errors.New(secret), 503: fmt.Errorf(secret+": %w", vault.ErrKeyDenied)} {
		cause = err
		res := get(t.Context())
		id := res.Header().Get("BT-TRACE-ID")
		same(t, "the status", res.Code, status)
		for _, part := range []string{"level=ERROR", "trace_id=" + id, `route="GET /patients/{id}"`, fmt.Sprintf("status=%d", status), secret} {
			must.Contain(t, "the log", log.String(), part)
		}
		if id == "" || strings.Contains(res.Body.String(), secret) {
			t.Errorf("trace id %q, body %s", id, res.Body)
		}
	}
	cause = errors.New(secret)
	same(t, "the trace id", get(t.Context(), "BT-TRACE-ID", "theirs").Header().Get("BT-TRACE-ID"), "theirs")
	same(t, "the trace id", get(vault.WithTraceID(t.Context(), "ours")).Header().Get("BT-TRACE-ID"), "ours")
	must.Contain(t, "the body", get(t.Context()).Body.String(), detailLogged)
	gone, leave := context.WithCancel(t.Context())
	leave()
	get(gone)
	same(t, "the log of a caller that left", log.String(), "")
	cause = fmt.Errorf(secret+": %w", vault.ErrNotFound)
	same(t, "the status", get(t.Context()).Code, 404)
	same(t, "the log of a caller's mistake", log.String(), "")

	failing := &Options{Authenticate: func(*http.Request) (*vault.Client, error) { return nil, errors.New(secret) }}
	for detail, logger := range map[string]*slog.Logger{detailLogged: slog.New(slog.DiscardHandler), detailInternal: nil} {
		failing.Logger = logger
		res := httptest.NewRecorder()
		Handler(vaulttest.New(t).Vault, failing).ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/tokens", nil))
		must.Contain(t, "the body of the API", res.Body.String(), `"detail":"`+detail+`"`)
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
		w := restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{Runtime: picky{err}}), nil)
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
	w := restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{Runtime: picky{vault.ErrBusy}}), nil)
	res := w.do("POST", "/reactors", w.ManagementKey, reactorBody)
	res.wantError(t, http.StatusTooManyRequests)
	if res.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
