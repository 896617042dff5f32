// Package httptokenize removes sensitive values from requests to a program's
// own handlers. A handler behind [Requests] receives tokens where its callers
// send card numbers, so it never holds a card number.
package httptokenize

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// maxBody is the most bytes that a body may have.
const maxBody = 5 << 20

// Field is a field of JSON bodies that [Requests] replaces.
type Field struct {
	// Path leads to the field: names joined by dots. [] after the name of an
	// array stands for each of its elements. Examples: "card", "buyer.ssn",
	// "payments[].card". Names match in any case, as in encoding/json.
	Path string
	// Type is the type of the token. Default: a generic token.
	Type vault.TokenType
	// Containers are the containers of the token. Default: the containers of
	// its type.
	Containers []string
	// ID is the token's id. It may be an expression over the value. Default:
	// a UUID.
	ID string
	// Mask is an expression, or any JSON with expressions in its strings.
	// Default: the mask of the type.
	Mask any
	// Metadata returns the metadata of the token, which must not be
	// sensitive. Default: none.
	Metadata func(*http.Request) map[string]string
	// ExpiresAt returns when the token expires. It is a function because a
	// handler lives longer than any fixed time. Default: never.
	ExpiresAt func(*http.Request) time.Time
}

// params returns the parameters of the token for a value in a request.
func (f *Field) params(r *http.Request, value []byte) vault.TokenParams {
	p := vault.TokenParams{ID: f.ID, Type: cmp.Or(f.Type, vault.TypeGeneric), Data: vault.JSON(value), Mask: f.Mask, Containers: f.Containers}
	if f.Metadata != nil {
		p.Metadata = f.Metadata(r)
	}
	if f.ExpiresAt != nil {
		p.ExpiresAt = f.ExpiresAt(r)
	}
	return p
}

// Requests returns a handler that removes sensitive fields from JSON bodies
// before next sees them. Each value becomes a token of c, which needs
// token:create, and the token's id replaces the value. The rest of the body
// stays the same, byte for byte. A missing or null field stays as it is. Next
// can get the tokens with [Token].
//
//	mux.Handle("POST /orders", httptokenize.Requests(orders, c,
//		httptokenize.Field{Path: "card", Type: vault.TypeCard},
//		httptokenize.Field{Path: "buyer.ssn", Type: vault.TypeSocialSecurityNumber}))
//
// A request creates either all of its tokens or none. A body that has an
// invalid value, is not JSON, or has more than 5 MiB does not reach next. It
// gets an error in the form of the REST API. A body with another content type,
// or with a Content-Encoding, gets a 415, because it cannot be inspected.
//
// Requests panics if a path is malformed.
func Requests(next http.Handler, c *vault.Client, fields ...Field) http.Handler {
	return RequestsBy(next, func(*http.Request) (*vault.Client, error) { return c, nil }, fields...)
}

// RequestsBy is [Requests] with a client for each request, for programs with several
// tenants. The function runs only for requests that have a value to replace. Its error
// gets a response in the form of the REST API, and next does not see the request. So
// does no client, which is a 401.
func RequestsBy(next http.Handler, client func(*http.Request) (*vault.Client, error), fields ...Field) http.Handler {
	t := &tokenizing{next: next, client: client, fields: fields}
	for _, f := range fields {
		steps, err := parseFieldPath(f.Path)
		if err != nil {
			panic(err)
		}
		t.paths = append(t.paths, steps)
	}
	return t
}

// parseFieldPath splits a path into names and elements ("[]").
func parseFieldPath(path string) ([]string, error) {
	var steps []string
	for name := range strings.SplitSeq(path, ".") {
		bare := strings.TrimRight(name, "[]")
		arrays := strings.Count(name, "[]")
		if name == "" || strings.ContainsAny(bare, "[]") || bare+strings.Repeat("[]", arrays) != name || bare == "" && len(steps) > 0 {
			return nil, fmt.Errorf("httptokenize: %q is not a valid path of a Field; write it like payments[].card", path)
		}
		if bare != "" {
			steps = append(steps, bare)
		}
		for range arrays {
			steps = append(steps, "[]")
		}
	}
	return steps, nil
}

// tokenizing is the handler that Requests returns.
type tokenizing struct {
	next   http.Handler
	client func(*http.Request) (*vault.Client, error)
	fields []Field
	paths  [][]string // parsed paths of the fields
}

// ServeHTTP replaces the fields of a request and passes it to the next
// handler.
func (t *tokenizing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		t.next.ServeHTTP(w, r)
		return
	}
	body, made, err := t.replace(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	out := r.Clone(context.WithValue(r.Context(), tokenizedKey{}, made))
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.TransferEncoding = nil
	out.Header.Set("Content-Length", strconv.Itoa(len(body)))
	t.next.ServeHTTP(w, out)
}

// tokenizedKey is the context key of the tokens that a request created.
type tokenizedKey struct{}

// Token returns the token with this id that [Requests] created for this
// request. Its data is masked, so a handler can show the last digits of a
// card without reading the token. For any other id, Token returns nil.
func Token(r *http.Request, id string) *vault.Token {
	made, _ := r.Context().Value(tokenizedKey{}).([]vault.Token)
	for i := range made {
		if made[i].ID == id {
			return &made[i]
		}
	}
	return nil
}

// errNotJSON means that a body cannot be inspected.
var errNotJSON = errors.New("the body is not JSON")

const answerNotJSON = `{"title":"Unsupported Media Type","status":415,"detail":"The body must be JSON, with the content type application/json and without a Content-Encoding."}`

// refuse responds to a request that does not reach the next handler.
func refuse(w http.ResponseWriter, err error) {
	if !errors.Is(err, errNotJSON) {
		httpserver.WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnsupportedMediaType)
	_, _ = io.WriteString(w, answerNotJSON) // if the caller has gone, there is no one to report the error to
}

// bodyError turns an error of reading a body into an error for the caller.
func bodyError(err error) error {
	var over *http.MaxBytesError
	if errors.As(err, &over) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return invalid("The body was cut off.")
}

// replace returns the body with ids in place of the chosen values, and the
// tokens with these ids.
func (t *tokenizing) replace(w http.ResponseWriter, r *http.Request) ([]byte, []vault.Token, error) {
	typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Header.Get("Content-Encoding") != "" || typ != "application/json" && !strings.HasSuffix(typ, "+json") {
		return nil, nil, errNotJSON
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, nil, bodyError(err)
	}
	found, err := t.find(body)
	if err != nil || len(found) == 0 {
		return body, nil, err
	}
	c, err := t.client(r)
	if err != nil {
		return nil, nil, err
	}
	if c == nil {
		return nil, nil, vault.ErrUnauthenticated
	}
	document, err := t.document(r, body, found)
	if err != nil {
		return nil, nil, err
	}
	out, err := c.Tokenize(r.Context(), document)
	if err != nil {
		return nil, nil, t.named(err, found)
	}
	var made []vault.Token
	if err := out.Decode(&made); err != nil {
		return nil, nil, err
	}
	replaced, err := splice(body, found, made)
	return replaced, made, err
}

// document returns a document with a token request for each value.
func (t *tokenizing) document(r *http.Request, body []byte, found []foundValue) (vault.JSON, error) {
	document := []byte("[")
	for i, f := range found {
		text, err := t.fields[f.field].params(r, body[f.start:f.end]).MarshalJSON()
		if bad, ok := errors.AsType[*vault.InvalidError](err); ok {
			here := &vault.InvalidError{Fields: map[string][]string{}}
			for path, messages := range bad.Fields {
				here.Fields[fmt.Sprintf("[%d].%s", i, path)] = messages
			}
			return nil, t.named(here, found)
		}
		if err != nil {
			return nil, err
		}
		if i > 0 {
			document = append(document, ',')
		}
		document = append(document, text...)
	}
	return append(document, ']'), nil
}

// foundValue is the position of a value to replace.
type foundValue struct {
	field      int // index in fields
	start, end int
}

// splice replaces values in the body by the ids of their tokens.
func splice(body []byte, found []foundValue, tokens []vault.Token) ([]byte, error) {
	var out bytes.Buffer
	last := 0
	for i, f := range found {
		id, err := json.Marshal(tokens[i].ID)
		if err != nil {
			return nil, err
		}
		out.Write(body[last:f.start])
		out.Write(id)
		last = f.end
	}
	out.Write(body[last:])
	return out.Bytes(), nil
}

// named translates the field names in an error of the vault to the names in
// the caller's body: [2].data.number is the number in the third value.
func (t *tokenizing) named(err error, found []foundValue) error {
	var bad *vault.InvalidError
	if !errors.As(err, &bad) {
		return err
	}
	out := &vault.InvalidError{Fields: map[string][]string{}}
	for path, messages := range bad.Fields {
		index, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if n, err := strconv.Atoi(index); err == nil && n < len(found) {
			path = t.fields[found[n].field].Path + strings.TrimPrefix(rest, ".data")
		}
		out.Fields[path] = append(out.Fields[path], messages...)
	}
	return out
}
