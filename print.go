package vault

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
)

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

// hidden stands for data that has neither a name nor an id.
const hidden = "hidden"

// names returns the part of a value that is shown: pairs of a name and a text,
// without empty texts.
func names(pairs ...string) slog.Value {
	attrs := make([]slog.Attr, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		if name, text := pair[0], pair[len(pair)-1]; text != "" && text != uuid.Nil.String() {
			attrs = append(attrs, slog.String(name, text))
		}
	}
	return slog.GroupValue(attrs...)
}

// format prints the part of a value that is shown. Texts are quoted, so that a name
// cannot look like a separate log line.
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
	_, _ = io.WriteString(f, b.String()) // Format cannot report an error
}

// The methods below are one group, which the package comment describes under
// Printing. An embedded type cannot have them, because it does not know the ids and
// names of the struct around it.

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

// LogValue shows the id.
func (k ApplicationKey) LogValue() slog.Value { return names("id", k.ID.String()) }

// Format prints what LogValue shows.
func (k ApplicationKey) Format(f fmt.State, _ rune) { format(f, k) }

// LogValue shows nothing of the claims.
func (c Claims) LogValue() slog.Value { return names("claims", hidden) }

// Format prints what LogValue shows.
func (c Claims) Format(f fmt.State, _ rune) { format(f, c) }

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

// LogValue shows the ids and the reason, and nothing of the query, which may hold
// data.
func (p EraseParams) LogValue() slog.Value {
	return names("query", hidden, "ids", strings.Join(p.IDs, " "), "reason", p.Reason)
}

// Format prints what LogValue shows.
func (p EraseParams) Format(f fmt.State, _ rune) { format(f, p) }

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

// LogValue shows the number of items, and nothing of them.
func (p Page[T]) LogValue() slog.Value {
	return names("items", strconv.Itoa(len(p.Data)), "page", strconv.Itoa(p.Pagination.PageNumber))
}

// Format prints what LogValue shows.
func (p Page[T]) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows the number of items, and nothing of them.
func (p CursorPage[T]) LogValue() slog.Value { return names("items", strconv.Itoa(len(p.Data))) }

// Format prints what LogValue shows.
func (p CursorPage[T]) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows what happened, and nothing of the item.
func (a Applied[T]) LogValue() slog.Value {
	return names("created", strconv.FormatBool(a.Created), "changed", strconv.FormatBool(a.Changed))
}

// Format prints what LogValue shows.
func (a Applied[T]) Format(f fmt.State, _ rune) { format(f, a) }

// LogValue shows nothing of the filters, which may hold metadata.
func (p ListTokensParams) LogValue() slog.Value { return names("filters", hidden) }

// Format prints what LogValue shows.
func (p ListTokensParams) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows how long the run took, and nothing of its result or its lines.
func (r TestRun) LogValue() slog.Value { return names("took", r.Took.String()) }

// Format prints what LogValue shows.
func (r TestRun) Format(f fmt.State, _ rune) { format(f, r) }

// LogValue shows the ids.
func (p TestRunParams) LogValue() slog.Value {
	return names("reactor_id", p.ReactorID.String(), "proxy_id", p.ProxyID.String())
}

// Format prints what LogValue shows.
func (p TestRunParams) Format(f fmt.State, _ rune) { format(f, p) }

// LogValue shows who wrote the line, and nothing of its text.
func (l ScriptLine) LogValue() slog.Value {
	return names("tenant_id", l.TenantID.String(), "entity_type", l.EntityType, "entity_id", l.EntityID, "level", l.Level)
}

// Format prints what LogValue shows.
func (l ScriptLine) Format(f fmt.State, _ rune) { format(f, l) }

// LogValue shows the status.
func (a ProxyAnswer) LogValue() slog.Value { return names("status", strconv.Itoa(a.Status)) }

// Format prints what LogValue shows.
func (a ProxyAnswer) Format(f fmt.State, _ rune) { format(f, a) }

// LogValue shows nothing of the code, which may hold keys.
func (x ProxyTransform) LogValue() slog.Value { return names("code", hidden) }

// Format prints what LogValue shows.
func (x ProxyTransform) Format(f fmt.State, _ rune) { format(f, x) }

// LogValue shows nothing of the headers and the secret.
func (o LogHTTPOptions) LogValue() slog.Value { return names("header", hidden) }

// Format prints what LogValue shows.
func (o LogHTTPOptions) Format(f fmt.State, _ rune) { format(f, o) }

// LogValue shows the scope. The key may be made of data.
func (k IdempotencyKey) LogValue() slog.Value { return names("scope", k.Scope) }

// Format prints what LogValue shows.
func (k IdempotencyKey) Format(f fmt.State, _ rune) { format(f, k) }

// LogValue shows the tenant and the application.
func (c Client) LogValue() slog.Value {
	return names("tenant_id", c.TenantID().String(), "application_id", c.ApplicationID().String())
}

// Format prints what LogValue shows.
func (c Client) Format(f fmt.State, _ rune) { format(f, c) }

// LogValue shows nothing of the vault.
func (v *Vault) LogValue() slog.Value { return slog.GroupValue() }

// Format prints the name of the type.
func (v *Vault) Format(f fmt.State, _ rune) { format(f, v) }
