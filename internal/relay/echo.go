package relay

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/reveal"
)

// Echo removes from a response the data of tokens that the request sent, if its
// caller may not see it. The data is replaced by the expression for the token. The
// memory and the work of the search are charged to the caller's tenant, until the
// body of the response has been read or closed. Without a response, Close ends it.
type Echo struct {
	filter *filter
	ctx    context.Context
	room   *admission.Room
	told   func() // reports that something was replaced, the first time

	mu   sync.Mutex
	paid int // bytes that are reserved for text that is held back
	over bool
}

// newEcho returns the Echo for texts that were sent. encoded are the base64 texts of
// headers.
func newEcho(ctx context.Context, op *core.Op, sent, encoded []reveal.Text) (*Echo, error) {
	var secrets []secret
	known := map[string]bool{}
	add := func(s reveal.Text, forms ...string) {
		for _, text := range forms {
			if !known[text] {
				known[text] = true
				secrets = append(secrets, secret{Text: text, Instead: "{{ " + s.Token + " }}"})
			}
		}
	}
	for _, s := range sent {
		add(s, s.Text, escapeXML(s.Text)) // as it was inserted
		add(s, base64Forms(s.Text)...)
	}
	for _, s := range encoded {
		add(s, s.Text, strings.TrimRight(s.Text, "="))
	}
	e := &Echo{ctx: ctx, room: op.Room(nil)}
	e.told = sync.OnceFunc(func() {
		_, end := op.Vault.Tell(ctx, core.Event{Kind: core.KindEcho, Name: "replaced", TenantID: op.Tenant(), EntityID: op.ApplicationID()})
		end(nil)
	})
	if memory := expr.Rounded(automatonBytes(textsOf(secrets))); memory > core.LargeBody {
		admission.Of(ctx).Rest()
		if err := cmp.Or(e.room.Reserve(ctx, memory), core.Turn(ctx)); err != nil {
			e.Close()
			return nil, err
		}
	}
	e.filter = newFilter(secrets, signsAlike)
	return e, nil
}

// Close ends the search. A nil Echo does nothing.
func (e *Echo) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.room.Leave()
}

// work takes the tenant's turn before a block is searched, and pays for the text that
// is held back.
func (e *Echo) work(held int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return http.ErrBodyReadAfterClose
	}
	if need := copies * held; need > e.paid+core.LargeBody {
		if err := e.room.Reserve(e.ctx, need); err != nil {
			return err
		}
		e.paid += need
	}
	return e.room.Turn(e.ctx)
}

// copies is how many bytes are in memory for a byte that is held back: the text, what
// is passed on, and the widths of decoded text.
const copies = 4

// Clean cleans the headers and the body of a response. The body is decompressed,
// and stays a stream. A response that cannot be searched is an error, and its
// body is closed. A nil Echo leaves the response as it is.
func (e *Echo) Clean(res *http.Response) error {
	if e == nil {
		return nil
	}
	body, err := searchable(res)
	if err == nil {
		res.Header, err = e.header(res.Header)
	}
	if err != nil {
		res.Body.Close()
		e.Close()
		return err
	}
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength, res.Trailer = -1, nil
	res.Status = strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode) // not the destination's text
	s := e.filter.Reader(body)
	s.work, s.rest = e.work, e.room.Rest
	res.Body = &cleanBody{s, res.Body, e}
	return nil
}

// cleanBody is the body of a response without the data that was sent.
type cleanBody struct {
	*stream
	raw  io.Closer
	echo *Echo
}

func (b *cleanBody) Read(p []byte) (int, error) {
	n, err := b.stream.Read(p)
	if b.any {
		b.echo.told()
	}
	if err != nil {
		b.echo.Close()
	}
	return n, err
}

func (b *cleanBody) Close() error {
	b.echo.Close()
	return b.raw.Close()
}

// header returns the headers of a response without the data that was sent. A
// header whose name has such data, in letters of any case, is left out.
func (e *Echo) header(from http.Header) (http.Header, error) {
	defer e.room.Rest()
	longest := 0
	for name := range from {
		longest = max(longest, len(name))
	}
	short := slices.DeleteFunc(slices.Clone(e.filter.secrets), func(s secret) bool { return len(s.Text) > longest })
	names, out := newFilter(short, lettersAlike), http.Header{}
	for name, values := range from {
		clean, err := e.text(names, name)
		if err != nil {
			return nil, err
		}
		if clean != name {
			continue
		}
		for _, value := range values {
			clean, err := e.text(e.filter, value)
			if err != nil {
				return nil, err
			}
			out[name] = append(out[name], clean)
		}
	}
	return out, nil
}

// text returns a text without the data that was sent.
func (e *Echo) text(f *filter, text string) (string, error) {
	s := &stream{f: f, work: e.work}
	if err := s.scan([]byte(text)); err != nil {
		return "", err
	}
	if s.end(); s.any {
		e.told()
	}
	return string(s.out), nil
}

// searchable returns the plain body of a response, if it can be searched.
func searchable(res *http.Response) (io.Reader, error) {
	switch {
	case res.StatusCode < 200:
		return nil, unsearchable("switches to another protocol")
	case res.StatusCode == http.StatusPartialContent:
		return nil, unsearchable("is only a part of a document")
	case !isUTF8(res.Header):
		return nil, unsearchable("has a charset other than UTF-8")
	}
	encodings, err := encodingsOf(res.Header)
	switch {
	case err != nil:
		return nil, unsearchable(err.Error())
	case len(encodings) == 0:
		return res.Body, nil
	}
	raw := bufio.NewReader(res.Body)
	if _, err := raw.Peek(1); err == io.EOF {
		return raw, nil
	}
	var plain io.Reader = raw
	for _, name := range encodings {
		if plain, err = decompressor(name, plain); err != nil {
			return nil, compressed(err)
		}
	}
	start := bufio.NewReader(plain)
	if _, err := start.Peek(1); err != nil && err != io.EOF {
		return nil, compressed(err)
	}
	return &plainBody{start}, nil
}

// unsearchable returns the error for a response that cannot be searched for
// data.
func unsearchable(why string) error {
	return fault.New(fault.ErrUnreachable, "the destination's response cannot be searched for the data that was sent: it %s", why)
}

// compressed returns the error of a decompressor. Errors of the connection pass.
func compressed(err error) error {
	switch {
	case errors.Is(err, errEncoding):
		return unsearchable(errEncoding.Error())
	case errors.Is(err, fault.ErrUnreachable), errors.Is(err, fault.ErrTimeout):
		return err
	default:
		return unsearchable(errCompressed.Error())
	}
}

// plainBody is a body that was compressed.
type plainBody struct{ io.Reader }

func (d *plainBody) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = compressed(err)
	}
	return n, err
}

// isUTF8 reports whether the headers name no other charset.
func isUTF8(header http.Header) bool {
	for _, line := range header["Content-Type"] {
		_, params, err := mime.ParseMediaType(line)
		charset, given := params["charset"]
		if err != nil && strings.Contains(strings.ToLower(line), "charset") || given && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
			return false
		}
	}
	return true
}
