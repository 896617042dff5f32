package serve

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// A logFile writes the lines of the log. Lines of requests wait in memory, for a
// second at most. Any other line is written at once, after the waiting lines.
type logFile struct {
	out io.Writer

	mu      sync.Mutex
	waiting []byte
}

// maxWaiting is the maximum number of waiting bytes.
const maxWaiting = 32 << 10

// Write implements io.Writer.
func (f *logFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, p...)
	return len(p), f.write()
}

// write writes the waiting lines. The caller holds the lock.
func (f *logFile) write() error {
	if len(f.waiting) == 0 {
		return nil
	}
	_, err := f.out.Write(f.waiting)
	f.waiting = f.waiting[:0]
	return err
}

// flushEvery writes the waiting lines at each tick, and when stop is called.
func (f *logFile) flushEvery(tick <-chan time.Time) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	flush := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = f.write() // there is no other place to say that the log cannot be written
	}
	go func() {
		defer close(ended)
		for {
			select {
			case <-tick:
				flush()
			case <-end:
				flush()
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// requestLog is the handler of the lines of requests. It writes the same output as the
// embedded handler, which takes two to three times as long and gets the lines that
// need quotes.
type requestLog struct {
	slog.Handler
	file *logFile
	json bool
}

// Handle implements slog.Handler.
func (h requestLog) Handle(ctx context.Context, r slog.Record) error {
	h.file.mu.Lock()
	line, ok := h.appendLine(h.file.waiting, r)
	if ok {
		h.file.waiting = line
		var err error
		if len(line) > maxWaiting {
			err = h.file.write()
		}
		h.file.mu.Unlock()
		return err
	}
	h.file.mu.Unlock()
	return h.Handler.Handle(ctx, r)
}

// appendLine returns false if a text needs quotes, or if an attribute has a kind that
// lines of requests do not use.
func (h requestLog) appendLine(b []byte, r slog.Record) ([]byte, bool) {
	if h.json {
		b = r.Time.AppendFormat(append(b, `{"time":"`...), time.RFC3339Nano)
		b = append(append(append(append(b, `","level":"`...), r.Level.String()...), `","msg":"`...), r.Message...)
		b = append(b, '"')
	} else {
		b = r.Time.AppendFormat(append(b, "time="...), "2006-01-02T15:04:05.000Z07:00")
		b = append(append(append(append(b, " level="...), r.Level.String()...), " msg="...), r.Message...)
	}
	ok := plain(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b, ok = h.appendAttr(b, a, ok)
		return ok
	})
	if h.json {
		b = append(b, '}')
	}
	return append(b, '\n'), ok
}

func (h requestLog) appendAttr(b []byte, a slog.Attr, ok bool) ([]byte, bool) {
	if h.json {
		b = append(append(append(b, `,"`...), a.Key...), `":`...)
	} else {
		b = append(append(append(b, ' '), a.Key...), '=')
	}
	switch a.Value.Kind() {
	case slog.KindString:
		if h.json {
			b = append(append(append(b, '"'), a.Value.String()...), '"')
		} else {
			b = append(b, a.Value.String()...)
		}
		ok = ok && plain(a.Value.String())
	case slog.KindInt64:
		b = strconv.AppendInt(b, a.Value.Int64(), 10)
	case slog.KindDuration:
		if h.json {
			b = strconv.AppendInt(b, int64(a.Value.Duration()), 10)
		} else {
			b = append(b, a.Value.Duration().String()...)
		}
	default:
		ok = false
	}
	return b, ok
}

// plain reports whether a text is the same with and without quotes in text and JSON.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=' {
			return false
		}
	}
	return text != ""
}
