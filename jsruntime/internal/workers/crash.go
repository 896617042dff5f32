package workers

import (
	"log/slog"
	"strings"
	"sync/atomic"
)

// crashes logs and counts the panics of the engine. Tenants learn only that
// their run crashed.
type crashes struct {
	log   *slog.Logger // nil for the default logger
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

// deathText returns the first line that a process wrote when it died, unless
// that line may contain data of a tenant.
func deathText(words string) string {
	line, _, _ := strings.Cut(words, "\n")
	for _, known := range []string{"fatal error: ", "runtime: ", "SIG", "panic: runtime error: "} {
		if strings.HasPrefix(line, known) {
			return line
		}
	}
	return "the process died"
}
