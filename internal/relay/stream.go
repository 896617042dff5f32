package relay

import (
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// minUploadRate is the average number of bytes a second that a body must have
	// while it is streamed.
	minUploadRate = 1 << 10
	// LingerTimeout is how long to wait for the rest of a body that is no longer
	// needed.
	LingerTimeout = 5 * time.Second
)

// Patience is how long a caller may still keep the server waiting for a body.
// It shrinks while the server waits, and grows with the bytes that arrive. A
// body thus has a minimum rate and a maximum duration for its size. Time that
// the server spends on other work does not count.
type Patience struct {
	left, most time.Duration
	rate       int // bytes a second
}

// NewPatience returns the patience for a body. Rate is in bytes a second.
func NewPatience(most time.Duration, rate int) Patience { return Patience{most, most, rate} }

// Until returns when patience runs out for a wait that starts now.
func (p *Patience) Until(now time.Time) time.Time { return now.Add(max(p.left, 0)) }

// Note records a wait and the bytes that arrived.
func (p *Patience) Note(waited time.Duration, bytes int) {
	p.left = min(p.most, p.left-waited+time.Duration(bytes)*time.Second/time.Duration(p.rate))
}

// Upload is the body of a request to a server that streams it to a destination. It
// may take any length of time, but has a minimum rate. The goroutine that sends it
// to the destination may outlive the request.
type Upload struct {
	body     io.Reader
	control  *http.ResponseController
	explain  func(error) error // converts an error of the connection
	limit    time.Duration
	patience Patience // how long the caller may still keep us waiting

	mu    sync.Mutex
	ended bool // the server has the connection back
	eof   bool
}

// NewUpload returns the body of a request, no part of which may take longer than
// limit. End must be called before the handler of the request returns.
func NewUpload(w http.ResponseWriter, r *http.Request, limit time.Duration, explain func(error) error) *Upload {
	return &Upload{
		body: r.Body, control: http.NewResponseController(w), explain: explain,
		limit: limit, patience: NewPatience(limit, minUploadRate), eof: r.ContentLength == 0,
	}
}

// Read implements [io.Reader].
func (u *Upload) Read(p []byte) (int, error) {
	start := time.Now()
	if !u.wait(u.patience.Until(start)) {
		return 0, io.ErrClosedPipe
	}
	n, err := u.body.Read(p)
	u.patience.Note(time.Since(start), n)
	switch {
	case err == io.EOF:
		u.wait(time.Time{})
		u.mu.Lock()
		u.eof = true
		u.mu.Unlock()
	case err != nil:
		return n, u.explain(err)
	}
	return n, err
}

// wait sets the time by which the next bytes must arrive. It reports whether
// the connection may still be used.
func (u *Upload) wait(until time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		_ = u.control.SetReadDeadline(until) // not every server has deadlines
	}
	return !u.ended
}

// Done reports whether the body has been read to its end.
func (u *Upload) Done() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.eof
}

// End returns the connection to the server, which waits briefly for the rest
// of the body.
func (u *Upload) End() {
	if !u.Done() {
		u.wait(time.Now().Add(min(LingerTimeout, u.limit)))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
}

// CopyTo sends the status and the body to the caller of a server, which has set the
// headers. The caller must take each part within the limit. CopyTo returns how many
// bytes of the body were sent, and whether it had to stop early. The handler must
// then abort, so that the caller does not mistake half a response for a whole one.
func (a *Answer) CopyTo(w http.ResponseWriter, method string, limit time.Duration) (sent int, broken bool) {
	header, control := w.Header(), http.NewResponseController(w)
	if header.Get("Content-Type") == "" {
		header["Content-Type"] = nil // net/http would guess one
	}
	w.WriteHeader(a.Status)
	if method == http.MethodHead {
		return 0, false
	}
	flush := header.Get("Content-Length") == ""
	if flush {
		_ = control.Flush() // the first bytes may take long to arrive
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	for {
		n, readErr := a.Body.Read(*buffer)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(limit))
			if _, err := w.Write((*buffer)[:n]); err != nil {
				return sent, true
			}
			sent += n
			if flush {
				_ = control.Flush()
			}
		}
		if readErr != nil {
			return sent, readErr != io.EOF
		}
	}
}

// buffers holds the buffers for copying responses.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}
