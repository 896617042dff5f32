package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// defaultImportPause is how long an import waits in total for further rows of
// a batch before it writes the rows it has. Waiting rows use memory.
const defaultImportPause = time.Second

// minImportRate is the average number of bytes a second that an import must
// send while the server waits for rows. Blank lines do not count.
const minImportRate = 128

// importText is a line of the body as it was read.
type importText struct {
	bytes []byte
	last  bool  // the body ends with this line
	err   error // error of the row, or errUnreadable
}

// lineReader reads lines while the import writes rows and sends results. It
// reads one line per request on ask, so that it and the import never use the
// body at the same time.
type lineReader struct {
	ask   chan struct{}
	got   chan importText
	asked bool // a line has been requested and not received
}

// rows yields the rows of the body. It sends pending results before it waits
// for a row. When rows are late, it makes the import write the rows it has.
func (s *importStream) rows(yield func(vault.TokenParams, error) bool) {
	idle, gathered := time.Duration(0), false
	late := func() bool {
		if !gathered {
			return true
		}
		gathered = false
		goOn := yield(vault.TokenParams{}, vault.ErrImportPause)
		s.flush()
		return goOn
	}
	for {
		s.flush()
		text, waited, ok := s.next(late, s.handler.importPause-idle)
		if !ok {
			return
		}
		if idle += waited; !gathered {
			idle = 0
		}
		if text.last {
			s.reachEnd()
		}
		if blank := len(bytes.TrimSpace(text.bytes)) == 0; blank && text.err == nil {
			if text.last {
				return
			}
			continue
		}
		gathered = true
		var p vault.TokenParams
		if text.err == nil {
			p, text.err = s.parse(text.bytes)
		}
		if !yield(p, text.err) {
			return
		}
	}
}

// next returns the next line and how long it waited for it. If the wait is
// longer than pause, it calls late, which reports whether to continue.
func (s *importStream) next(late func() bool, pause time.Duration) (text importText, waited time.Duration, ok bool) {
	s.endLong()
	if s.buffered() {
		return s.line(), 0, true
	}
	if s.reader == nil {
		s.reader = &lineReader{ask: make(chan struct{}), got: make(chan importText, 1)}
		go func(r *lineReader) {
			for range r.ask {
				r.got <- s.line()
			}
		}(s.reader)
	}
	start, timer := time.Now(), time.NewTimer(pause)
	defer timer.Stop()
	s.reader.ask <- struct{}{}
	s.reader.asked = true
	for {
		select {
		case text = <-s.reader.got:
			s.reader.asked = false
			return text, time.Since(start), true
		case <-timer.C:
			if !late() {
				return importText{}, 0, false
			}
		}
	}
}

// buffered reports whether a whole line can be read without waiting.
func (s *importStream) buffered() bool {
	there, err := s.in.Peek(s.in.Buffered())
	return err == nil && bytes.IndexByte(there, '\n') >= 0
}

// stop ends the reading of lines.
func (s *importStream) stop() {
	if s.reader != nil {
		close(s.reader.ask)
		if s.reader.asked {
			_ = s.control.SetReadDeadline(time.Unix(1, 0)) // in the past
			<-s.reader.got
		}
	}
	s.endLong()
}

// line reads a line. A line that is too long is an error of its row.
func (s *importStream) line() importText {
	limit := int(s.handler.opts.MaxBody)
	var line []byte
	for {
		start := time.Now()
		_ = s.control.SetReadDeadline(s.patience.Until(start))
		part, err := s.in.ReadSlice('\n')
		s.patience.Note(time.Since(start), len(bytes.TrimSpace(part)))
		if len(line) <= limit {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if err := s.arrive(len(part)); err != nil {
				s.broken = err
				return importText{err: errUnreadable}
			}
		case err != nil && !errors.Is(err, io.EOF):
			s.broken = bodyError(err, s.handler.opts.MaxBody)
			return importText{err: errUnreadable}
		case len(line) > limit+1:
			return importText{last: err != nil, err: invalid("", "must have at most %d bytes", limit)}
		default:
			return importText{bytes: line, last: err != nil}
		}
	}
}
