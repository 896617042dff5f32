package vault

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// JSON is a JSON value as text. Key order and the text of numbers are those
// that were stored: 1.10 stays 1.10, and 1e400 is kept though no Go number
// holds it. A nil JSON is an absent value; JSON null is the text null.
type JSON json.RawMessage

// Decode stores the value in what dst points to, as json.Unmarshal does.
func (j JSON) Decode(dst any) error {
	if j == nil {
		return errors.New("vault: no value to decode")
	}
	return json.Unmarshal(j, dst)
}

// MarshalJSON returns the text, and null for an absent value.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON keeps a copy of the text.
func (j *JSON) UnmarshalJSON(data []byte) error {
	*j = append((*j)[:0], data...)
	return nil
}

// String returns the text. A JSON is the value itself, as a string would be, so
// fmt and slog show it in clear: log the [Token] that it belongs to, which does
// not show it.
func (j JSON) String() string { return string(j) }

// EncodeJSON returns a value as JSON, as the methods of [Client] read it: a
// [JSON] and a json.RawMessage are JSON text, and everything else is encoded as
// encoding/json does, but without escapes for HTML. Text that is not JSON, a
// value that cannot be written as JSON, and a []byte, which does not say what it
// holds, are an [InvalidError].
func EncodeJSON(x any) (JSON, error) {
	v, err := parseJSON("", x)
	if err != nil {
		return nil, public(err)
	}
	if v.IsZero() {
		v = jsonx.NullValue()
	}
	return v.JSON(), nil
}

// plainJSON returns a value that a caller gave as rooms read it: JSON text as a
// json.RawMessage, and a card without reflection.
func plainJSON(x any) any {
	switch x := x.(type) {
	case JSON:
		if x == nil {
			return json.RawMessage{} // which is not JSON: an absent value has to be nil
		}
		return json.RawMessage(x)
	case CardData:
		return x.value()
	}
	return x
}

// publicJSON returns what a room gives as a value of a caller.
func publicJSON(x any) any {
	if text, ok := x.(json.RawMessage); ok {
		return JSON(text)
	}
	return x
}

// parseJSON reads a Go value or JSON text that a caller gave for a field.
func parseJSON(path string, x any) (jsonx.Value, error) { return core.ParseJSON(path, plainJSON(x)) }

// readObject reads a JSON object strictly: an unknown field, a duplicate key or
// a wrong type is an InvalidError about all bad fields.
func readObject(text []byte, read func(*form.Reader)) error {
	return public(fault.Of(form.ReadText(text, read)))
}

// PageParams asks for a page of a list. Zero values mean the first page and
// the default size of 20; a page holds at most 100 items, and no more bytes than
// [Config.MaxPageBytes].
type PageParams struct {
	Page int
	Size int
}

// normal fills in the defaults and checks the bounds.
func (p PageParams) normal() (PageParams, error) {
	err := fault.Of((*form.Paging)(&p).Check())
	return p, err
}

// readPage reads page and size. A zero that is given is out of bounds, unlike
// one that is not.
func readPage(r *form.Reader) PageParams {
	return PageParams{Page: readCount(r, "page"), Size: readCount(r, "size")}
}

func readCount(r *form.Reader, name string) int {
	n, ok := r.Int(name)
	if ok && n == 0 {
		return -1
	}
	return n
}

// Page is one page of a list.
type Page[T any] struct {
	Pagination Pagination `json:"pagination"`
	Data       []T        `json:"data"`
}

// Pagination says where a page stands in its list.
type Pagination struct {
	TotalItems int `json:"total_items"` // over all pages
	PageNumber int `json:"page_number"`
	PageSize   int `json:"page_size"`
	TotalPages int `json:"total_pages"`
	// TotalIsCapped means that there are more items than TotalItems says: counting
	// stopped there. In JSON it is "total_is_exact": false, and otherwise left out.
	TotalIsCapped bool `json:"total_is_exact,omitempty"`
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p Pagination) MarshalJSON() ([]byte, error) {
	type plain Pagination
	out := struct {
		plain
		Exact *bool `json:"total_is_exact,omitempty"`
	}{plain: plain(p)}
	if p.TotalIsCapped {
		out.Exact = new(bool)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the JSON form. Fields that it does not know are ignored: a
// later version may have more.
func (p *Pagination) UnmarshalJSON(data []byte) error {
	type plain Pagination
	in := struct {
		*plain
		Exact *bool `json:"total_is_exact"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	p.TotalIsCapped = in.Exact != nil && !*in.Exact
	return nil
}

func newPage[T any](p PageParams, total int) *Page[T] {
	return &Page[T]{
		Pagination: Pagination{TotalItems: total, PageNumber: p.Page, PageSize: p.Size, TotalPages: (total + p.Size - 1) / p.Size},
		Data:       []T{},
	}
}

// cappedPage is newPage for a total that was counted only as far as it is shown.
func cappedPage[T any](p PageParams, total int) *Page[T] {
	page := newPage[T](p, min(total, tokens.MaxTotal))
	page.Pagination.TotalIsCapped = total > tokens.MaxTotal
	return page
}

// The methods of this file are described once, in the package comment under
// Printing.

// names returns what a value shows: pairs of a name and a text. Empty texts are
// left out.
func names(pairs ...string) slog.Value {
	attrs := make([]slog.Attr, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		if name, text := pair[0], pair[len(pair)-1]; text != "" && text != uuid.Nil.String() {
			attrs = append(attrs, slog.String(name, text))
		}
	}
	return slog.GroupValue(attrs...)
}

// format prints what a value shows. Texts are quoted, so that a name cannot
// pass for a line of a log.
func format(f fmt.State, x slog.LogValuer) {
	var b strings.Builder
	fmt.Fprintf(&b, "%T{", x)
	for i, a := range x.LogValue().Group() {
		if i > 0 {
			b.WriteString(" ")
		}
		fmt.Fprintf(&b, "%s:%q", a.Key, a.Value.String())
	}
	b.WriteString("}")
	_, _ = io.WriteString(f, b.String()) // what printing fails on, it cannot say
}

// LogValue shows the id, the tenant and the type.
func (t Token) LogValue() slog.Value {
	return names("id", t.ID, "tenant_id", t.TenantID.String(), "type", string(t.Type))
}

// Format prints what LogValue shows.
func (t Token) Format(f fmt.State, _ rune) { format(f, t) }

// LogValue shows the id and the type.
func (p TokenParams) LogValue() slog.Value { return names("id", p.ID, "type", string(p.Type)) }

// Format prints what LogValue shows.
func (p TokenParams) Format(f fmt.State, _ rune) { format(f, p) }

// hidden stands for data that has neither a name nor an id.
const hidden = "hidden"

// LogValue shows nothing of the card.
func (d CardData) LogValue() slog.Value { return names("card", hidden) }

// Format prints what LogValue shows.
func (d CardData) Format(f fmt.State, _ rune) { format(f, d) }

// LogValue shows nothing of the account.
func (d BankData) LogValue() slog.Value { return names("account", hidden) }

// Format prints what LogValue shows.
func (d BankData) Format(f fmt.State, _ rune) { format(f, d) }

// LogValue shows the id and the name.
func (t Tenant) LogValue() slog.Value { return names("id", t.ID.String(), "name", t.Name) }

// Format prints what LogValue shows.
func (t Tenant) Format(f fmt.State, _ rune) { format(f, t) }

// LogValue shows the id, the tenant, the name and the type.
func (a Application) LogValue() slog.Value {
	return names("id", a.ID.String(), "tenant_id", a.TenantID.String(), "name", a.Name, "type", string(a.Type))
}

// Format prints what LogValue shows.
func (a Application) Format(f fmt.State, _ rune) { format(f, a) }

// LogValue shows nothing of the key and the nonce.
func (s Session) LogValue() slog.Value { return names("session_key", hidden) }

// Format prints what LogValue shows.
func (s Session) Format(f fmt.State, _ rune) { format(f, s) }

// LogValue shows the id, the tenant and the name.
func (r Reactor) LogValue() slog.Value {
	return names("id", r.ID.String(), "tenant_id", r.TenantID.String(), "name", r.Name)
}

// Format prints what LogValue shows.
func (r Reactor) Format(f fmt.State, _ rune) { format(f, r) }

// LogValue shows the name.
func (p ReactorParams) LogValue() slog.Value { return names("name", p.Name) }

// Format prints what LogValue shows.
func (p ReactorParams) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows the id, the tenant and the name. A destination may have
// credentials in its query, so it is not shown.
func (x Proxy) LogValue() slog.Value {
	return names("id", x.ID.String(), "tenant_id", x.TenantID.String(), "name", x.Name)
}

// Format prints what LogValue shows.
func (x Proxy) Format(f fmt.State, _ rune) { format(f, x) }

// LogValue shows the name.
func (p ProxyParams) LogValue() slog.Value { return names("name", p.Name) }

// Format prints what LogValue shows.
func (p ProxyParams) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows nothing of the nonce and the rights.
func (g SessionGrant) LogValue() slog.Value { return names("nonce", hidden) }

// Format prints what LogValue shows.
func (g SessionGrant) Format(f fmt.State, _ rune) { format(f, g) }

// LogValue shows nothing of the query, which may hold data.
func (p SearchTokensParams) LogValue() slog.Value { return names("query", hidden) }

// Format prints what LogValue shows.
func (p SearchTokensParams) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows the reason, and nothing of the query, which may hold data.
func (p EraseParams) LogValue() slog.Value { return names("query", hidden, "reason", p.Reason) }

// Format prints what LogValue shows.
func (p EraseParams) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows nothing of the query, which may hold data.
func (o ExportOptions) LogValue() slog.Value { return names("query", hidden) }

// Format prints what LogValue shows.
func (o ExportOptions) Format(f fmt.State, _ rune) { format(f, o) }

// LogValue shows nothing of the arguments and the URL.
func (p ReactParams) LogValue() slog.Value { return names("args", hidden) }

// Format prints what LogValue shows.
func (p ReactParams) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows nothing of the result.
func (r ReactResult) LogValue() slog.Value { return names("result", hidden) }

// Format prints what LogValue shows.
func (r ReactResult) Format(f fmt.State, _ rune) { format(f, r) }

// LogValue shows the method.
func (p ProxyCall) LogValue() slog.Value { return names("method", cmp.Or(p.Method, http.MethodGet)) }

// Format prints what LogValue shows.
func (p ProxyCall) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows the status.
func (a StoredResponse) LogValue() slog.Value { return names("status", strconv.Itoa(a.Status)) }

// Format prints what LogValue shows.
func (a StoredResponse) Format(f fmt.State, _ rune) { format(f, a) }

// Secret is a value that does not print, such as an API key in a configuration or a
// password in a request. With fmt, slog, templates and encoding/json it shows the
// word hidden. Reveal returns the value. Decoding JSON sets the value.
//
//	type Config struct {
//		Addr   string
//		APIKey vault.Secret[string]
//	}
//
// Copies have the same value. The operator == reports whether two secrets are copies
// of each other, and does not compare values.
type Secret[T any] struct {
	// Printing by reflection does not look behind a pointer to a function. This
	// covers unexported fields, where fmt calls no methods.
	value *secretValue[T]
}

type secretValue[T any] struct{ reveal func() T }

// NewSecret returns a value as a secret.
func NewSecret[T any](v T) Secret[T] {
	return Secret[T]{&secretValue[T]{func() T { return v }}}
}

// Reveal returns the value. The zero Secret returns the zero T.
func (s Secret[T]) Reveal() T {
	if s.value == nil {
		return *new(T)
	}
	return s.value.reveal()
}

// IsZero reports whether the secret has no value.
func (s Secret[T]) IsZero() bool { return s.value == nil }

// String returns the word hidden, or "" for the zero Secret.
func (s Secret[T]) String() string {
	if s.value == nil {
		return ""
	}
	return hidden
}

// Format prints the result of String for every verb.
func (s Secret[T]) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String()) // Format cannot return an error
}

// LogValue returns the result of String.
func (s Secret[T]) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON writes the result of String. The value is lost.
func (s Secret[T]) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalJSON sets the value; null removes it. Errors do not quote the value.
func (s *Secret[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Secret[T]{}
		return nil
	}
	var v T
	if err := JSON(text).Decode(&v); err != nil {
		return public(fault.Field("", "must be of Go type %T", v))
	}
	*s = NewSecret(v)
	return nil
}

// UnmarshalText sets the value of a Secret[string] or Secret[[]byte], for
// configuration in environment variables or YAML.
func (s *Secret[T]) UnmarshalText(text []byte) error {
	var v T
	switch v := any(&v).(type) {
	case *string:
		*v = string(text)
	case *[]byte:
		*v = slices.Clone(text)
	default:
		return public(fault.Field("", "must be a string or a []byte to be read from text"))
	}
	*s = NewSecret(v)
	return nil
}
