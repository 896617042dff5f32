package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
)

// Anchor stores notes in a place where a writer of the database cannot change
// them.
type Anchor interface {
	// Latest returns the newest note, or nil if the anchor has no notes.
	Latest(ctx context.Context) ([]byte, error)
	// Put adds a note.
	Put(ctx context.Context, msg []byte) error
}

const (
	// anchorTimeout is the limit for one call of an anchor.
	anchorTimeout = 30 * time.Second
	// anchorWait limits how long the first checkpoint waits for anchors.
	anchorWait = 2 * time.Second
	// maxNote is the maximum size of a note, in bytes.
	maxNote = 64 << 10
)

// anchored calls an anchor, one call at a time, in the background.
type anchored struct {
	Anchor
	keys func() []note.Verifier
	now  func() time.Time
	// mayFollow reports whether another note may follow one that the anchor has.
	mayFollow func(ctx context.Context, msg []byte) bool

	mu     sync.Mutex
	next   []byte // the note to put
	again  bool   // call the anchor once more
	closed bool
	busy   chan struct{} // closed when the work ends; nil when idle
	once   bool          // the anchor has responded or timed out
	msg    []byte        // the newest note
	err    error
	failed int64     // number of failed calls
	good   time.Time // when the last call succeeded

	compared []byte // the last note that the tree was compared with; guarded by Ledger.mu
}

// AnchorStatus is the state of an anchor.
type AnchorStatus struct {
	Size     int64     // tree size in its newest note; 0 without notes
	GoodAt   time.Time // end of its last successful call
	Failures int64     // number of failed calls
	Err      error     // of the last call
}

func (a *anchored) status() AnchorStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := AnchorStatus{GoodAt: a.good, Failures: a.failed, Err: a.err}
	if c, err := evidence.OpenCheckpoint(a.msg, a.keys()...); err == nil {
		s.Size = c.Size
	}
	return s
}

// kick starts a call of the anchor in the background. The call reads the latest
// note, and then puts msg, unless it is nil.
func (a *anchored) kick(msg []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if a.again = true; msg != nil {
		a.next = msg
	}
	if a.busy == nil {
		a.busy = make(chan struct{})
		go a.work()
	}
}

func (a *anchored) work() {
	for {
		a.mu.Lock()
		msg := a.next
		if !a.again {
			close(a.busy)
			a.busy = nil
			a.mu.Unlock()
			return
		}
		a.next, a.again = nil, false
		a.mu.Unlock()
		a.call(msg)
	}
}

func (a *anchored) call(msg []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), anchorTimeout)
	defer cancel()
	got, err := a.Latest(ctx)
	// Without this check, msg could hide a note that the database does not continue.
	if err == nil && msg != nil && (len(got) == 0 || a.mayFollow(ctx, got)) {
		if err = a.Put(ctx, msg); err == nil {
			got = msg
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.once, a.err = true, err; err != nil {
		a.failed++
		return
	}
	if a.good = a.now(); len(got) > 0 {
		a.msg = got
	}
}

// wait waits for the anchor's first response, until over at the latest.
func (a *anchored) wait(over <-chan time.Time) {
	a.mu.Lock()
	busy, once := a.busy, a.once
	a.mu.Unlock()
	if once || busy == nil {
		return
	}
	select {
	case <-busy:
	case <-over:
		a.mu.Lock()
		a.once = true // no later call waits for a hanging anchor
		a.mu.Unlock()
	}
}

// newest returns the newest note that the anchor is known to have, and the last
// error.
func (a *anchored) newest() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.msg, a.err
}

// drain waits until the anchor is idle. No call starts after that.
func (a *anchored) drain(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	busy := a.busy
	a.mu.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("evidence: an anchor does not respond: %w", ctx.Err())
	}
}

// File is an anchor in a file. Notes are appended, each followed by an empty
// line, and synced. Use it for storage that cannot be rewritten, or for a
// repository.
type File string

// Latest implements [Anchor].
func (f File) Latest(context.Context) ([]byte, error) {
	file, err := os.Open(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: the anchor: %w", err)
	}
	defer func() { _ = file.Close() }()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("evidence: the anchor: %w", err)
	}
	tail := make([]byte, min(end, 2*maxNote))
	if _, err := file.ReadAt(tail, end-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("evidence: the anchor: %w", err)
	}
	return lastNote(tail), nil
}

var (
	blank     = []byte("\n\n")
	signature = []byte("— ")
)

// lastNote returns the last complete note of a text. It skips a note that a
// crash cut off. The empty line after the last note may be missing, because a
// file with a single saved note is an anchor too.
func lastNote(text []byte) []byte {
	if bytes.HasSuffix(text, blank[:1]) && !bytes.HasSuffix(text, blank) {
		text = append(text, '\n')
	}
	end := bytes.LastIndex(text, blank)
	for end >= 0 {
		start := bytes.LastIndex(text[:end], blank)
		if start < 0 {
			return nil
		}
		if bytes.HasPrefix(text[start+2:], signature) {
			body := 0
			if before := bytes.LastIndex(text[:start], blank); before >= 0 {
				body = before + 2
			}
			return bytes.Clone(text[body : end+1])
		}
		end = start
	}
	return nil
}

// Put implements [Anchor].
func (f File) Put(_ context.Context, msg []byte) error {
	file, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // notes are public
	if err != nil {
		return fmt.Errorf("evidence: the anchor: %w", err)
	}
	// The separator ends a note that a crash cut off.
	_, err = file.Write(append(append(separator(file), msg...), '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("evidence: the anchor: %w", err)
	}
	return nil
}

// separator returns the text that ends an incomplete note at the end of a file.
func separator(file *os.File) []byte {
	reader, err := os.Open(file.Name())
	if err != nil {
		return nil
	}
	defer func() { _ = reader.Close() }()
	end, err := reader.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return nil
	}
	tail := make([]byte, min(end, 2))
	if _, err := reader.ReadAt(tail, end-int64(len(tail))); err == nil && !bytes.Equal(tail, blank) {
		return blank
	}
	return nil
}

// HTTP is an anchor at a URL. POST adds a note, which is signed. GET returns
// the newest note, or 404.
type HTTP struct {
	URL    string
	Client *http.Client
}

// Latest implements [Anchor].
func (h *HTTP) Latest(ctx context.Context) ([]byte, error) {
	status, body, err := h.do(ctx, http.MethodGet, nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound || status == http.StatusNoContent:
		return nil, nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("evidence: the anchor responds with status %d", status)
	}
	return body, nil
}

// Put implements [Anchor].
func (h *HTTP) Put(ctx context.Context, msg []byte) error {
	status, _, err := h.do(ctx, http.MethodPost, msg)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("evidence: the anchor responds with status %d", status)
	}
	return err
}

func (h *HTTP) do(ctx context.Context, method string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.URL, bytes.NewReader(body))
	if err != nil {
		return 0, nil, errors.New("evidence: the URL of the anchor is not valid")
	}
	if body != nil {
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	// An anchor that redirects would send notes to a place that nobody chose.
	client := *h.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("evidence: the anchor does not respond: %w", err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxNote))
	return resp.StatusCode, got, err
}
