package sinks

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/runs"
)

// Writer sends batches to an io.Writer, one at a time. A hanging write does not block
// its caller, but the next write waits for it.
type Writer struct {
	w    io.Writer
	busy chan struct{}
}

// NewWriter returns a sender to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w, make(chan struct{}, 1)} }

// NewFile returns a sender that appends batches to a file. It creates the file again
// after the file was moved or deleted. A sent batch is on disk.
func NewFile(path string) *Writer { return NewWriter(&file{path: path}) }

// Prepare returns an error if the sender cannot work.
func (w *Writer) Prepare(string) error {
	switch to := w.w.(type) {
	case nil:
		return errors.New("there is no writer")
	case *file:
		to.mu.Lock()
		defer to.mu.Unlock()
		return to.open()
	}
	return nil
}

// Send implements Sender. The caller may reuse the bytes of a batch after Send
// returns, so a write that may outlast it uses a copy.
func (w *Writer) Send(ctx context.Context, batch []byte, _ string) error {
	batch = bytes.Clone(batch)
	select {
	case w.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-w.busy }()
		_, err := w.w.Write(batch)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// file is a file that batches are appended to.
type file struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// Close closes the file.
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.close()
}

func (f *file) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// open opens the file. It reopens the file if the path no longer leads to it.
func (f *file) open() error {
	if f.file != nil {
		named, err := os.Stat(f.path)
		own, ownErr := f.file.Stat()
		if err == nil && ownErr == nil && os.SameFile(named, own) {
			return nil
		}
		_ = f.close() // its batches are on disk
	}
	opened, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		f.file = opened
	}
	return err
}

// Write appends a batch.
func (f *file) Write(batch []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return 0, err
	}
	n, err = f.file.Write(batch)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		_ = f.close() // the next batch reopens it
	}
	return n, err
}

// HTTPOptions adjusts HTTP. The zero value is safe.
type HTTPOptions struct {
	// Header is sent with each batch.
	Header http.Header
	// Secret signs batches in the same way as callbacks. Empty means no signature.
	Secret string
	// Gzip compresses batches.
	Gzip bool
	// AllowHTTP allows plain http to hosts other than loopback.
	AllowHTTP bool
	// Client sends the requests. Default: a client with a timeout of 10 seconds
	// that follows no redirects.
	Client *http.Client
}

// HTTP posts batches to a URL.
type HTTP struct {
	url  string
	opts HTTPOptions
}

// NewHTTP returns a sender to a URL. Prepare reports whether the URL is valid.
func NewHTTP(address string, opts *HTTPOptions) *HTTP {
	h := &HTTP{url: address}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Client == nil {
		h.opts.Client = &http.Client{
			Timeout:       sendTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return h
}

// String hides the URL and the options, which may hold secrets.
func (HTTP) String() string { return "vault.LogHTTP(hidden)" }

// Format prints the result of String for every verb.
func (h HTTP) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// Prepare checks the URL and the secret. With OTLP, a URL without a path gets the
// standard path of the protocol.
func (h *HTTP) Prepare(format string) error {
	u, err := url.Parse(h.url)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the destination must be an absolute https URL")
	}
	if u.Scheme == "http" && !h.opts.AllowHTTP && !egress.IsLoopback(u.Hostname()) {
		return errors.New("plain http to another machine needs the option AllowHTTP")
	}
	if h.opts.Secret != "" {
		if _, err := runs.SignWebhook([]string{h.opts.Secret}, "x", time.Time{}, nil); err != nil {
			return err
		}
	}
	if format == OTLP && strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/logs"
		h.url = u.String()
	}
	return nil
}

// Send implements Sender.
func (h *HTTP) Send(ctx context.Context, batch []byte, contentType string) error {
	req, err := h.request(ctx, batch, contentType)
	if err != nil {
		return err
	}
	res, err := h.opts.Client.Do(req)
	if err != nil {
		return networkError(err)
	}
	defer res.Body.Close()
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return networkError(err)
	}
	return judge(res, body)
}

// networkError returns an error without the URL, because the URL may hold a token.
func networkError(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("the destination is out of reach: %w", op.Err)
	}
	return fmt.Errorf("the destination is out of reach: %w", err)
}

func (h *HTTP) request(ctx context.Context, batch []byte, contentType string) (*http.Request, error) {
	header := http.Header{}
	if h.opts.Secret != "" {
		var err error
		if header, err = runs.SignWebhook([]string{h.opts.Secret}, uuid.NewString(), time.Now(), batch); err != nil {
			return nil, err
		}
	}
	header.Set("Content-Type", contentType)
	header.Set("User-Agent", productName)
	if h.opts.Gzip {
		var err error
		if batch, err = compress(batch); err != nil {
			return nil, err
		}
		header.Set("Content-Encoding", "gzip")
	}
	for name, values := range h.opts.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(batch))
	if err != nil {
		return nil, errors.New("the destination must be an absolute https URL")
	}
	req.Header = header
	return req, nil
}

func compress(batch []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(batch)
	err = cmp.Or(err, z.Close())
	return out.Bytes(), err
}

// judge interprets a response. A 2xx status accepts the batch, unless the body
// reports rejected records.
func judge(res *http.Response, body []byte) error {
	e := &httpError{status: res.StatusCode}
	switch {
	case res.StatusCode >= 200 && res.StatusCode <= 299:
		if e.rejected = rejected(res.Header.Get("Content-Type"), body); e.rejected == 0 {
			return nil
		}
		e.refused = true
	case res.StatusCode == http.StatusBadRequest, res.StatusCode == http.StatusRequestEntityTooLarge:
		e.refused = true
	default:
		e.after = egress.RetryAfter(res.Header)
	}
	return e
}

// rejected returns the number of records that an OTLP receiver rejected. JSON has
// the number as a string, but some receivers send a number.
func rejected(contentType string, body []byte) int64 {
	typ, _, err := mime.ParseMediaType(contentType)
	if err != nil || typ != contentJSON {
		return 0
	}
	var answer struct {
		PartialSuccess struct {
			Rejected json.RawMessage `json:"rejectedLogRecords"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.Trim(string(answer.PartialSuccess.Rejected), `"`), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// httpError is a response that does not accept a batch. It does not include the
// body, which may repeat the batch.
type httpError struct {
	status   int
	rejected int64
	refused  bool
	after    time.Duration
}

// Error implements error.
func (e *httpError) Error() string {
	if e.rejected != 0 {
		return fmt.Sprintf("the destination rejected %d records", e.rejected)
	}
	return fmt.Sprintf("the destination responded with the status %d", e.status)
}

// Refused reports whether the content was refused.
func (e *httpError) Refused() bool { return e.refused }

// RetryAfter returns the Retry-After time of the destination.
func (e *httpError) RetryAfter() time.Duration { return e.after }
