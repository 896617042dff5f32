package node

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// panicText describes a panic without data of a tenant: it returns the text of an
// error of Go's runtime, and only the type of any other value.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("panic with a %T", p)
}

// maxCrashFrames limits the stack of a report.
const maxCrashFrames = 40

// panicStack lists the functions and lines of the panicking goroutine,
// innermost first, without arguments. Only functions that recover from a panic
// may call it.
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
