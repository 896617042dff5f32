package relay

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
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
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/relay/search"
	"github.com/seed-72ea4aab/vault/internal/reveal"
)

// Echo removes from a response the data of tokens that the request sent, if its
// caller may not see it. The data is replaced by the expression for the token. The
// memory and the work of the search are charged to the caller's tenant, until the
// body of the response has been read or closed. Without a response, Close ends it.
type Echo struct {
	// filters are applied one after the other. The first one has the data. A second one
	// has the texts that the sender chose. Beside the data, they would overlap a value
	// whose start the sender guessed right, and the response would tell.
	filters []*search.Filter
	ctx     context.Context
	room    *admission.Room
	limit   int64  // of a body that is held in memory
	told    func() // reports that something was replaced, the first time

	mu   sync.Mutex
	over bool
}

// newEcho returns the Echo for texts that were sent. encoded are the base64 texts of
// headers.
func newEcho(ctx context.Context, op *core.Op, sent, encoded []reveal.Text) (*Echo, error) {
	e := &Echo{ctx: ctx, room: op.Room(nil), limit: int64(op.Vault.MaxBytes)}
	e.told = sync.OnceFunc(func() {
		_, end := op.Vault.Tell(ctx, core.Event{Kind: core.KindEcho, Name: "replaced", TenantID: op.Tenant(), EntityID: op.ApplicationID()})
		end(nil)
	})
	data, chosen := secretsOf(sent, encoded)
	if memory := search.Memory(data) + search.Memory(chosen); expr.Rounded(memory) > core.LargeBody {
		admission.Of(ctx).Rest()
		if err := cmp.Or(e.room.Reserve(ctx, expr.Rounded(memory)), core.Turn(ctx)); err != nil {
			e.Close()
			return nil, err
		}
	}
	e.filters = append(e.filters, search.New(data, search.SignsAlike))
	if len(chosen) > 0 {
		e.filters = append(e.filters, search.New(chosen, search.SignsAlike))
	}
	return e, nil
}

// secretsOf returns what to replace: the data, and the texts that the sender chose. Of
// an encoded text, the sender chose what is around the data. If that part began or ended
// a text in data, the sender could let it overlap a value, and guess a part of the value.
// So the data gets a mark first, and then the mark is replaced with what is around it.
func secretsOf(sent, encoded []reveal.Text) (data, chosen []search.Secret) {
	known := map[reveal.Text]bool{}
	var marked []search.Secret
	add := func(s reveal.Text, forms ...string) {
		for _, text := range forms {
			if form := (reveal.Text{Text: text, Free: s.Free}); !known[form] {
				known[form] = true
				to := &data
				if s.Free {
					to = &chosen
				}
				*to = append(*to, search.Secret{Text: text, Instead: "{{ " + s.Token + " }}"})
			}
		}
	}
	for _, s := range sent {
		add(s, s.Text, escapeXML(s.Text)) // as it was inserted
		add(s, base64Forms(s.Text)...)
		add(s, latin1Forms(s.Text)...)
	}
	for _, s := range encoded {
		from, to, first := dataIn(s.Text, sent)
		if s.Free = first == ""; s.Free {
			add(s, s.Text, strings.TrimRight(s.Text, "="))
			continue
		}
		if known[s] {
			continue // of another header
		}
		known[s] = true
		mark := "{{ " + first + " " + ids.Random58(markLength) + " }}"
		chosen = append(chosen, search.Secret{Text: mark, Instead: "{{ " + first + " }}"})
		for _, text := range []string{s.Text, strings.TrimRight(s.Text, "=")} {
			end := len(text)
			if to < len(s.Text) {
				end = to
			}
			marked = append(marked, search.Secret{Text: text[from:end], Instead: "{{ " + first + " }}", Mark: mark})
			chosen = append(chosen, search.Secret{Text: text[:from] + mark + text[end:], Instead: "{{ " + s.Token + " }}"})
		}
	}
	data = slices.Concat(marked, data) // the first of equal texts counts
	return data, chosen
}

// markLength is the length of the random part of a mark.
const markLength = 16

// dataIn returns the part of a base64 text that depends on the data in it, and the
// token of the first data; "" if there is none. The sender has chosen everything around
// this part.
func dataIn(text string, sent []reveal.Text) (from, to int, token string) {
	plain, _ := base64.StdEncoding.DecodeString(text) // canonical
	first, last := len(plain), 0
	for _, t := range sent {
		at := bytes.Index(plain, []byte(t.Text))
		if t.Free || at < 0 {
			continue
		}
		if at < first {
			first, token = at, t.Token
		}
		last = max(last, bytes.LastIndex(plain, []byte(t.Text))+len(t.Text))
	}
	if from, to = 8*first/6, (8*last+5)/6; last == len(plain) {
		to = len(text) // with the padding
	}
	return from, to, token
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

// worker returns a function for one text. It takes the tenant's turn before a block is
// searched, and pays for the text that is held back.
func (e *Echo) worker() func(held int) error {
	paid := 0
	return func(held int) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.over {
			return http.ErrBodyReadAfterClose
		}
		if need := copies * held; need > paid+core.LargeBody {
			if err := e.room.Reserve(e.ctx, need); err != nil {
				return err
			}
			paid += need
		}
		return e.room.Turn(e.ctx)
	}
}

// copies is how many bytes are in memory for a byte that is held back: the text, what
// is passed on, and the widths of decoded text.
const copies = 4

// Clean cleans the headers and the body of a response. The body stays a stream, or is
// decompressed. A response that cannot be searched is an error, and its body is closed.
// A nil Echo leaves the response as it is.
func (e *Echo) Clean(res *http.Response) error {
	if e == nil {
		return nil
	}
	clean := &cleanBody{raw: res.Body, echo: e}
	err := clean.open(res)
	if err == nil {
		res.Header, err = e.header(res.Header)
	}
	if err != nil {
		_ = clean.Close()
		return err
	}
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.Body, res.ContentLength, res.Trailer = clean, -1, nil
	res.Status = strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode) // not the destination's text
	return nil
}

// cleanBody is the body of a response without the data that was sent.
type cleanBody struct {
	from    io.Reader
	streams []*search.Stream // each reads from the one before
	raw     io.Closer
	echo    *Echo
}

// open begins the search. A compressed body is held until its end, because how well it
// is compressed, and so how much of it is in one part, depends on which parts of a value
// the caller guessed.
func (b *cleanBody) open(res *http.Response) error {
	body, compressed, err := b.echo.searchable(res)
	if err != nil {
		return err
	}
	for _, f := range b.echo.filters {
		s := f.Reader(body)
		s.Work, s.Rest = b.echo.worker(), b.echo.room.Rest
		body, b.streams = s, append(b.streams, s)
	}
	b.from = body
	if !compressed {
		return nil
	}
	whole, err := ReadBody(&heldBody{from: body, work: b.echo.worker()}, b.echo.limit)
	switch {
	case errors.Is(err, fault.ErrTooLarge):
		return unsearchable("is too large once decompressed")
	case err != nil:
		return err
	}
	b.from = bytes.NewReader(whole)
	return nil
}

// heldBody is a body that is going to be held, which its tenant pays for.
type heldBody struct {
	from io.Reader
	work func(held int) error
	held int
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.held += n
	return n, cmp.Or(b.work(b.held), err)
}

func (b *cleanBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if slices.ContainsFunc(b.streams, func(s *search.Stream) bool { return s.Replaced() }) {
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
	names, err := e.names(from)
	if err != nil {
		return nil, err
	}
	out := http.Header{}
	for name, values := range from {
		clean, err := e.text(names, name)
		if err != nil {
			return nil, err
		}
		if clean != name {
			continue
		}
		for _, value := range values {
			clean, err := e.text(e.filters, value)
			if err != nil {
				return nil, err
			}
			out[name] = append(out[name], clean)
		}
	}
	return out, nil
}

// names returns filters for the names of headers.
func (e *Echo) names(header http.Header) (names []*search.Filter, err error) {
	longest, memory := 0, 0
	for name := range header {
		longest = max(longest, len(name))
	}
	short := make([][]search.Secret, len(e.filters))
	for i, f := range e.filters {
		short[i] = slices.DeleteFunc(slices.Clone(f.Secrets()), func(s search.Secret) bool { return len(s.Text) > longest })
		memory += search.Memory(short[i])
	}
	if err := e.worker()(expr.Rounded(memory) / copies); err != nil {
		return nil, err
	}
	for _, some := range short {
		names = append(names, search.New(some, search.LettersAlike))
	}
	return names, nil
}

// text returns a text without the data that was sent.
func (e *Echo) text(filters []*search.Filter, text string) (string, error) {
	for _, f := range filters {
		clean, replaced, err := f.Text(text, e.worker())
		if err != nil {
			return "", err
		}
		if replaced {
			e.told()
		}
		text = clean
	}
	return text, nil
}

// searchable returns the plain body of a response, if it can be searched, and whether it
// was compressed. It is decompressed in the tenant's turn.
func (e *Echo) searchable(res *http.Response) (plain io.Reader, isCompressed bool, err error) {
	switch {
	case res.StatusCode < 200:
		return nil, false, unsearchable("switches to another protocol")
	case res.StatusCode == http.StatusPartialContent:
		return nil, false, unsearchable("is only a part of a document")
	case !hasCharset(res.Header, "utf-8", "utf8"):
		return nil, false, unsearchable("has a charset other than UTF-8")
	}
	encodings, err := encodingsOf(res.Header)
	switch {
	case err != nil:
		return nil, false, unsearchable(err.Error())
	case len(encodings) == 0:
		return res.Body, false, nil
	}
	raw := bufio.NewReader(&inTurn{from: res.Body, before: e.room.Rest})
	if _, err := raw.Peek(1); err == io.EOF {
		return raw, false, nil
	}
	plain = raw
	for _, name := range encodings {
		if plain, err = decompressor(name, plain); err != nil {
			return nil, false, compressed(err)
		}
		plain = &inTurn{plain, func() {}, e.worker()}
	}
	return &plainBody{plain}, true, nil
}

// inTurn is a stage of decompression. A body may be large in the middle although both
// ends are small.
type inTurn struct {
	from   io.Reader
	before func()               // called before a part is read
	work   func(held int) error // called after it; may be nil
}

func (r *inTurn) Read(p []byte) (int, error) {
	r.before()
	n, err := r.from.Read(p)
	if r.work != nil && err == nil {
		err = r.work(0)
	}
	return n, err
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
	case errors.Is(err, fault.ErrUnreachable), errors.Is(err, fault.ErrTimeout), errors.Is(err, http.ErrBodyReadAfterClose), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
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

// hasCharset reports whether the headers name no charset other than these.
func hasCharset(header http.Header, names ...string) bool {
	for _, line := range header["Content-Type"] {
		_, params, err := mime.ParseMediaType(line)
		charset, given := params["charset"]
		if err != nil && strings.Contains(strings.ToLower(line), "charset") || given && !slices.Contains(names, strings.ToLower(charset)) {
			return false
		}
	}
	return true
}
