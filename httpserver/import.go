package httpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/bridge"
)

// contentLines is the content type of JSON lines.
const contentLines = "application/x-ndjson"

// importLine is a line of the response to an import: the result of a row, with
// the status that it would have had by itself if it failed; or, as the last line,
// why the import has ended before its rows did.
type importLine struct {
	vault.ImportResult
	Status int        `json:"status,omitempty"`
	Error  *errorBody `json:"error,omitempty"`
}

// importTokens imports the lines of a body while it arrives, and sends results
// while it does. The body is read as fast as the database takes its rows and the
// caller takes the results, so neither piles up.
func importTokens() operation {
	return operation{takes: linesBody, lists: true, stream: (*exchange).importTokens}
}

// importStream is an import over HTTP. Reading and writing take turns.
type importStream struct {
	*exchange
	control *http.ResponseController
	in      *bufio.Reader
	out     *bufio.Writer
	sent    int   // bytes
	begun   bool  // the header is sent
	ended   bool  // the body has been read to its end
	failed  bool  // the caller does not take the results
	dirty   bool  // results wait to be sent
	broken  error // why the body cannot be read on

	long *bridge.Admission // room for a line that is long; else nil
}

// errUnreadable ends an import whose body cannot be read on.
var errUnreadable = errors.New("the body cannot be read on")

func (x *exchange) importTokens() (answer, error) {
	opts, err := importOptions(x.r.URL.RawQuery)
	if err != nil {
		return answer{}, err
	}
	s := &importStream{exchange: x, control: http.NewResponseController(x.w), in: bufio.NewReaderSize(http.NoBody, smallBody)}
	if x.r.Body != nil {
		s.in.Reset(x.r.Body)
	}
	s.out = bufio.NewWriterSize(x.w, smallBody)
	s.open()
	defer s.close()
	for result, err := range x.client.Import(x.ctx, s.rows, opts) {
		if err != nil && s.broken != nil {
			err = s.broken // also where the server has ended the context for it
		}
		if err != nil && !s.begun {
			s.endLong()
			return answer{}, err
		}
		s.write(result, err)
	}
	s.begin() // also without rows
	s.flush()
	s.endLong()
	return answer{status: x.route.status, streamed: s.sent, sent: true}, nil
}

// open lets results go out while rows come in. The server then does not look at
// what is left of the body before it takes the next request from the connection,
// so the connection ends with the response, unless the body has ended by the time
// that the header is sent.
func (s *importStream) open() {
	_ = s.control.EnableFullDuplex() // HTTP/2 has it always
	if s.r.ProtoMajor == 1 {
		s.w.Header().Set("Connection", "close")
	}
}

// reachEnd notes that the body has been read to its end.
func (s *importStream) reachEnd() {
	s.ended, s.read = true, true
	if !s.begun {
		s.w.Header().Del("Connection")
	}
}

// close bounds what the server still does with the connection: it reads some of a
// body that has not ended, and sends the end of the response.
func (s *importStream) close() {
	var read, write time.Time
	if !s.ended {
		read = time.Now().Add(min(lingerTimeout, s.bodyTimeout()))
	}
	if !s.ended || s.failed {
		write = time.Now().Add(s.handler.opts.BodyTimeout)
	}
	_ = s.control.SetReadDeadline(read)
	_ = s.control.SetWriteDeadline(write)
}

// importOptions reads the options of an import from the query.
func importOptions(query string) (opts *vault.ImportOptions, err error) {
	p, err := parseQuery(query)
	if err != nil {
		return opts, err
	}
	opts = &vault.ImportOptions{OnDuplicate: vault.OnDuplicate(p.text("on_duplicate")), Name: p.text("name"), FirstRow: p.count("first_row")}
	switch p.text("resumed") {
	case "", "false":
	case "true":
		opts.Resumed = true
	default:
		return opts, invalid("resumed", "must be true or false")
	}
	return opts, p.refuseOthers()
}

// rows reads the rows of the body. What is to be sent goes out before a row is
// waited for.
func (s *importStream) rows(yield func(vault.TokenParams, error) bool) {
	for {
		s.flush()
		line, err := s.line()
		if errors.Is(err, io.EOF) {
			return
		}
		var p vault.TokenParams
		if err == nil {
			p, err = s.parse(line)
		}
		if !yield(p, err) {
			return
		}
	}
}

// line reads a line that is not blank. One that is too long is an error of its
// row, and is passed over.
func (s *importStream) line() ([]byte, error) {
	limit := int(s.handler.opts.MaxBody)
	var line []byte
	s.endLong()
	for {
		_ = s.control.SetReadDeadline(time.Now().Add(s.handler.opts.BodyTimeout))
		part, err := s.in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			s.reachEnd()
		}
		if len(line) <= limit {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if err := s.arrive(len(part)); err != nil {
				s.broken = err
				return nil, errUnreadable
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			s.broken = bodyError(err, s.handler.opts.MaxBody)
			return nil, errUnreadable
		case len(line) > limit+1:
			return nil, invalid("", "must have at most %d bytes", limit)
		case len(bytes.TrimSpace(line)) > 0:
			return line, nil
		case err != nil:
			return nil, io.EOF
		}
		line = line[:0]
	}
}

// arrive makes room for a part of a line that is long.
func (s *importStream) arrive(bytes int) error {
	if s.long == nil {
		_, s.long = bridge.Admit(s.ctx, bridge.Caller(s.client), nil)
	}
	return s.long.Arrive(s.ctx, bytes)
}

func (s *importStream) endLong() {
	if s.long != nil {
		s.long.End()
		s.long = nil
	}
}

// parse reads a row. A long one takes room and a turn, as a body does.
func (s *importStream) parse(line []byte) (p vault.TokenParams, err error) {
	if s.long == nil {
		return p, p.UnmarshalJSON(line)
	}
	if err := s.long.Parse(s.ctx, line); err != nil {
		s.broken = err
		return p, errUnreadable
	}
	err = s.long.Work(s.ctx, func() error { return p.UnmarshalJSON(line) })
	s.long.Pause()
	return p, err
}

// begin sends the header.
func (s *importStream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	_ = s.control.SetWriteDeadline(time.Now().Add(s.handler.opts.BodyTimeout))
	s.setHeaders(&answer{status: http.StatusNoContent, header: http.Header{"Content-Type": {contentLines}}}) // without a length
	s.w.WriteHeader(s.route.status)
}

// write adds a line to the response: a result, or the error that has ended the
// import.
func (s *importStream) write(result vault.ImportResult, ended error) {
	s.begin()
	line := importLine{ImportResult: result}
	switch {
	case ended != nil:
		a, cause := s.refuse(ended)
		s.cause = cause
		line.Error = &errorBody{}
		_ = json.Unmarshal(a.body, line.Error) // it has just been made
	case result.Err != nil:
		line.Status = describe(result.Err).Status
		line.Errors = firstFields(result.Errors)
	}
	text, _ := json.Marshal(&line) // numbers and texts
	if !s.dirty {
		s.dirty = true
		_ = s.control.SetWriteDeadline(time.Now().Add(s.handler.opts.BodyTimeout))
	}
	s.sent += len(text) + 1
	_, _ = s.out.Write(append(text, '\n')) // if the caller has gone, its context ends the import
}

// flush sends what was written.
func (s *importStream) flush() {
	if !s.dirty {
		return
	}
	s.dirty = false
	s.failed = cmp.Or(s.out.Flush(), s.control.Flush()) != nil
}

// waitFor asks the limiter until it agrees, so that a caller with too many rows
// is slowed down and not cut off.
func (x *exchange) waitFor(tokens int) error {
	for tokens > 0 {
		wait, ok := x.handler.opts.RateLimit(x.r, x.client, tokens)
		if ok {
			return nil
		}
		select {
		case <-time.After(max(wait, minLimitPause)):
		case <-x.ctx.Done():
			return x.ctx.Err()
		}
	}
	return nil
}

// minLimitPause is the least time between two questions to the limiter.
const minLimitPause = 10 * time.Millisecond

// logFollowing is what a follower of the log asks for.
type logFollowing struct {
	cursor string
	wait   time.Duration
}

// maxWait is how long a follower may wait for an entry.
const maxWait = 30 * time.Second

func readLogFollowing(p *params) (logFollowing, error) {
	f := logFollowing{cursor: p.text("cursor")}
	if text, given := p.first("wait"); given {
		n, err := strconv.ParseUint(text, 10, 31)
		if f.wait = time.Duration(n) * time.Second; err != nil || f.wait > maxWait {
			return f, invalid("wait", "must be a number of seconds from 0 to %d", int(maxWait.Seconds()))
		}
	}
	return f, nil
}
