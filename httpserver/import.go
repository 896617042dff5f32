package httpserver

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/relay"
)

// contentLines is the content type of JSON lines.
const contentLines = "application/x-ndjson"

// importLine is a line of the response to an import. A row has its result, and
// if it failed, the status that it would have had as a request. If the import
// ended early, the last line has the reason.
type importLine struct {
	vault.ImportResult
	Status int        `json:"status,omitempty"`
	Error  *errorBody `json:"error,omitempty"`
}

// importStream is an import over HTTP. Reading and writing take turns.
type importStream struct {
	*exchange
	control *http.ResponseController
	in      *bufio.Reader
	out     *bufio.Writer
	sent    int   // bytes
	begun   bool  // the header has been sent
	ended   bool  // the body has been read to its end
	failed  bool  // the caller does not read the results
	dirty   bool  // there are results to send
	broken  error // why the rest of the body cannot be read

	long     *admission.Room // room for a long line, or nil
	patience relay.Patience  // how long the caller may still keep us waiting
	reader   *lineReader     // nil until the import has to wait for a line
}

// errUnreadable ends an import if the rest of its body cannot be read.
var errUnreadable = errors.New("the body cannot be read on")

// importTokens imports the lines of a body and sends results while the body
// arrives. It reads no faster than the database writes rows and the caller
// reads results, so neither piles up.
func (x *exchange) importTokens() (answer, error) {
	opts, err := importOptions(x.r.URL.RawQuery)
	if err != nil {
		return answer{}, err
	}
	if err := x.room.Arrive(x.ctx, 2*smallBody); err != nil { // an import may last for days
		return answer{}, err
	}
	s := &importStream{exchange: x, control: http.NewResponseController(x.w), in: bufio.NewReaderSize(http.NoBody, smallBody)}
	if x.r.Body != nil {
		s.in.Reset(x.r.Body)
	}
	s.out = bufio.NewWriterSize(x.w, smallBody)
	s.patience = relay.NewPatience(x.handler.opts.BodyTimeout, minImportRate)
	s.open()
	defer s.close()
	defer s.stop()
	for result, err := range x.client.Import(x.ctx, s.rows, opts) {
		if err != nil && s.broken != nil {
			err = s.broken // even if the server has canceled the context because of it
		}
		if err != nil && !s.begun {
			return answer{}, err
		}
		s.write(result, err)
	}
	s.begin() // an import without rows has not begun
	s.flush()
	return answer{status: x.route.status, streamed: s.sent, sent: true}, nil
}

// open allows sending results while rows still arrive. In this mode the
// server does not drain the body before the next request. The connection is
// therefore closed after the response, unless the body ends before the header
// is sent.
func (s *importStream) open() {
	_ = s.control.EnableFullDuplex() // HTTP/2 is always full duplex
	if s.r.ProtoMajor == 1 {
		s.w.Header().Set("Connection", "close")
	}
}

// reachEnd records that the body has been read to its end.
func (s *importStream) reachEnd() {
	s.ended, s.read = true, true
	if !s.begun {
		s.w.Header().Del("Connection")
	}
}

// close limits the time that the server still spends on the connection, to
// read some of an unfinished body and send the end of the response.
func (s *importStream) close() {
	var read, write time.Time
	if !s.ended {
		read = time.Now().Add(min(relay.LingerTimeout, s.bodyTimeout()))
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

// arrive reserves memory for a part of a long line.
func (s *importStream) arrive(bytes int) error {
	if s.long == nil {
		s.long = core.CallerOf(s.client).Room(nil)
	}
	return s.long.Arrive(s.ctx, bytes)
}

func (s *importStream) endLong() {
	if s.long != nil {
		s.long.Leave()
		s.long = nil
	}
}

// parse reads a row. A long row needs memory and a turn, as a body does.
func (s *importStream) parse(line []byte) (p vault.TokenParams, err error) {
	if s.long == nil {
		return p, p.UnmarshalJSON(line)
	}
	if err := s.long.Parse(s.ctx, line); err != nil {
		s.broken = err
		return p, errUnreadable
	}
	if err = s.long.Work(s.ctx); err == nil {
		err = p.UnmarshalJSON(line)
	}
	s.long.Rest()
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

// write adds a line to the response: a result, or the error that ended the
// import.
func (s *importStream) write(result vault.ImportResult, ended error) {
	s.begin()
	line := importLine{ImportResult: result}
	switch {
	case ended != nil:
		a, cause := s.refuse(ended)
		s.cause = cause
		line.Error = &errorBody{}
		_ = json.Unmarshal(a.body, line.Error) // cannot fail, because refuse has just encoded it
	case result.Err != nil:
		line.Status = describe(result.Err).Status
		line.Errors = firstFields(result.Errors)
	}
	text, _ := json.Marshal(&line) // cannot fail for numbers and strings
	if !s.dirty {
		s.dirty = true
		_ = s.control.SetWriteDeadline(time.Now().Add(s.handler.opts.BodyTimeout))
	}
	s.sent += len(text) + 1
	_, _ = s.out.Write(append(text, '\n')) // if the caller has gone, its context ends the import
}

// flush sends the lines that write has added.
func (s *importStream) flush() {
	if !s.dirty {
		return
	}
	s.dirty = false
	s.failed = cmp.Or(s.out.Flush(), s.control.Flush()) != nil
}

// waitFor calls the rate limiter until it agrees, so that a caller with too
// many rows is slowed down and not cut off.
func (x *exchange) waitFor(tokens int) error {
	for tokens > 0 {
		wait, ok := x.handler.opts.RateLimit(x.r, x.client, tokens)
		if ok {
			return nil
		}
		if err := pace.Sleep(x.ctx, max(wait, minLimitPause)); err != nil {
			return err
		}
	}
	return nil
}

// minLimitPause is the least time between two calls of the rate limiter.
const minLimitPause = 10 * time.Millisecond

// logFollowing holds the parameters of a request that follows the log.
type logFollowing struct {
	cursor string
	wait   time.Duration
}

// maxWait is the longest time that a follower may wait for an entry.
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
