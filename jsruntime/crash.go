package jsruntime

import (
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
)

// crashes logs and counts the panics of the engine. Tenants learn only that their run
// crashed.
type crashes struct {
	log   *slog.Logger // nil for the default one
	count atomic.Int64
}

// report logs a panic in a program, given by its tenant and name.
func (r *crashes) report(tenant, name, text, stack string) {
	r.count.Add(1)
	log := r.log
	if log == nil {
		log = slog.Default()
	}
	log.Error("jsruntime: the JavaScript engine failed", "tenant", tenant, "program", name, "panic", text, "stack", stack)
}

// panicText describes a panic without data of a tenant: it returns the text of an
// error of Go's runtime, and only the type of any other value.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("panic with a %T", p)
}

// maxCrashFrames bounds the stack of a report.
const maxCrashFrames = 40

// panicStack lists the functions and lines of the goroutine that panics, innermost
// first, without arguments. Callers are the functions that recover from it.
func panicStack() string {
	pcs := make([]uintptr, maxCrashFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s %s:%d\n", path.Base(f.Function), path.Base(f.File), f.Line)
		if !more {
			return b.String()
		}
	}
}

// deathText is the first line of what a process wrote when it died, unless that line
// may hold something of a tenant.
func deathText(words string) string {
	line, _, _ := strings.Cut(words, "\n")
	for _, known := range []string{"fatal error: ", "runtime: ", "SIG", "panic: runtime error: "} {
		if strings.HasPrefix(line, known) {
			return line
		}
	}
	return "the process died"
}
