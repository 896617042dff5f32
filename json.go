package vault

import (
	"encoding/json"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// JSON is a JSON value as text. Key order and the text of numbers stay as they were
// stored: 1.10 stays 1.10, and 1e400 is kept although no Go number holds it. A nil
// JSON is an absent value; JSON null is the text null.
type JSON json.RawMessage

// Decode stores the value in what dst points to, as json.Unmarshal does.
func (j JSON) Decode(dst any) error {
	if j == nil {
		return errors.New("vault: no value to decode")
	}
	return json.Unmarshal(j, dst)
}

// MarshalJSON returns the text, or null for an absent value.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON keeps a copy of the text.
func (j *JSON) UnmarshalJSON(data []byte) error {
	*j = append((*j)[:0], data...)
	return nil
}

// String returns the text. A JSON is the value itself, so fmt and slog show it in
// plaintext. To log safely, log the [Token] that it belongs to.
func (j JSON) String() string { return string(j) }

// EncodeJSON returns a value as JSON, by the same rules as the methods of [Client].
// A [JSON] and a json.RawMessage are JSON text. Other values are encoded by
// encoding/json, without escapes for HTML. Text that is not JSON, and a value that
// cannot be written as JSON, are an [InvalidError]. So is a []byte, because it is
// unclear what it holds.
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

// Expression returns the expression that stands for the data of a token, {{ id }}:
// see [Client.Detokenize] and [Client.InvokeProxy].
func Expression(id string) string { return "{{ " + id + " }}" }

// plainJSON converts a caller's value for the internal packages: JSON text becomes
// a json.RawMessage, and a card is converted without reflection.
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

// publicJSON converts a value of the internal packages for the caller.
func publicJSON(x any) any {
	if text, ok := x.(json.RawMessage); ok {
		return JSON(text)
	}
	return x
}

// parseJSON reads a Go value or JSON text that a caller passed for a field.
func parseJSON(path string, x any) (jsonx.Value, error) { return core.ParseJSON(path, plainJSON(x)) }

// readObject reads a JSON object strictly: an unknown field, a duplicate key or
// a wrong type is an InvalidError about all bad fields.
func readObject(text []byte, read func(*form.Reader)) error {
	return public(fault.Of(form.ReadText(text, read)))
}

// PageParams selects a page of a list. Zero values mean the first page and the
// default size of 20. A page holds at most 100 items, and at most
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

// readPage reads page and size. An explicit zero is out of bounds, but an absent
// field is not.
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

// Pagination is the position of a page in its list.
type Pagination struct {
	TotalItems int `json:"total_items"` // over all pages
	PageNumber int `json:"page_number"`
	PageSize   int `json:"page_size"`
	TotalPages int `json:"total_pages"`
	// TotalIsCapped means that there are more items than TotalItems, because
	// counting stopped there. In JSON it is "total_is_exact": false, and otherwise
	// left out.
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

// UnmarshalJSON reads the JSON form. Unknown fields are ignored, because a later
// version may add fields.
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

// cappedPage is newPage for a total that was counted only up to tokens.MaxTotal+1.
func cappedPage[T any](p PageParams, total int) *Page[T] {
	page := newPage[T](p, min(total, tokens.MaxTotal))
	page.Pagination.TotalIsCapped = total > tokens.MaxTotal
	return page
}
