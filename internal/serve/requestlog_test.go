package serve

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// request logs a line as httpserver does.
func request(h slog.Handler, route string) {
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0)
	line.AddAttrs(slog.String("trace_id", "3b0e2f1a-6f0e-4b8e-9c5c-1f2e3d4c5b6a"), slog.String("method", "GET"),
		slog.String("route", route), slog.Int("status", 200), slog.Duration("duration", 1234567))
	line.AddAttrs(slog.String("tenant_id", "7c8d2f1a-6f0e-4b8e-9c5c-1f2e3d4c5b6a"),
		slog.String("application_id", "0a1b2f1a-6f0e-4b8e-9c5c-1f2e3d4c5b6a"))
	_ = h.Handle(context.Background(), line)
}

func TestRequestLinesAreThoseOfSlog(t *testing.T) {
	t.Parallel()
	for name, attr := range map[string]slog.Attr{
		"plain":       slog.String("tenant_id", "{1b4e-28ba}"),
		"spaces":      slog.String("error", "a b"),
		"quotes":      slog.String("error", `"`),
		"equals":      slog.String("error", "a=b"),
		"backslash":   slog.String("error", `\`),
		"control":     slog.String("error", "\n\x7f"),
		"not ASCII":   slog.String("error", "é\xff"),
		"empty":       slog.String("error", ""),
		"html":        slog.String("error", "<&>"),
		"other kinds": slog.Any("error", []int{1}),
		"negative":    slog.Int("n", -5),
	} {
		for _, format := range []string{"text", formatJSON} {
			t.Run(name+" in "+format, func(t *testing.T) {
				t.Parallel()
				c := &Config{logFormat: format}
				var want, got bytes.Buffer
				file := &logFile{out: &got}
				handler := requestLog{c.logHandler(file), file, format == formatJSON}
				record := slog.NewRecord(time.Date(2026, 5, 4, 3, 2, 1, 120e6, time.FixedZone("", 7200)), slog.LevelInfo, "request", 0)
				record.AddAttrs(slog.Duration("duration", 1234567), attr)
				for _, err := range []error{c.logHandler(&want).Handle(t.Context(), record), handler.Handle(t.Context(), record), file.write()} {
					must.Do(t, err)
				}
				must.Same(t, "the line", want.String(), got.String())
			})
		}
	}
}

func TestRequestLinesWaitForASecond(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	file := &logFile{out: &out}
	handler := slog.NewTextHandler(file, nil)
	requests, others := requestLog{handler, file, false}, slog.New(handler)
	tick := make(chan time.Time)
	stop := file.flushEvery(tick)
	lines := func() int {
		file.mu.Lock()
		defer file.mu.Unlock()
		return bytes.Count(out.Bytes(), []byte("\n"))
	}
	request(requests, "/a")
	must.Same(t, "lines were written at once", 0, lines())
	tick <- time.Time{}
	tick <- time.Time{} // the flush of the first tick is done
	must.Same(t, "lines after a tick", 1, lines())
	request(requests, "/b")
	others.Info("another line")
	must.Same(t, "lines after another line", 3, lines())
	for range maxWaiting / 100 {
		request(requests, "/c")
	}
	if n := lines(); n == 3 {
		t.Error("more than the bound waits")
	}
	request(requests, "/d")
	stop()
	if !bytes.Contains(out.Bytes(), []byte("route=/d status=200 duration=1.234567ms ")) {
		t.Error("the end of the server does not write the last line")
	}
}
