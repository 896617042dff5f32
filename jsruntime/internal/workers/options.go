package workers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"runtime"
	"time"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

// Options are the options of package jsruntime, which documents them. The
// fields are the same, so that one converts to the other.
type Options struct {
	Workers                      int
	TenantWorkers                int
	Queue                        int
	Timeout                      time.Duration
	CheckTimeout                 time.Duration
	MemoryLimit                  int64
	MaxSource, MaxOutput, MaxLog int
	Modules                      string
	ShareWorkers                 bool
	WorkerPath                   string
	Lazy                         bool
	Logger                       *slog.Logger
}

// DefaultTimeout is the time limit of a run or a check whose context has no
// deadline. Only tests set it, because they must pass on a busy machine.
var DefaultTimeout = 10 * time.Second

// withDefaults returns the options with every field set.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	setDefault(&out.Workers, max(8, 4*runtime.GOMAXPROCS(0)))
	setDefault(&out.TenantWorkers, max(1, out.Workers/2))
	setDefault(&out.Queue, 8*out.Workers)
	setDefault(&out.Timeout, DefaultTimeout)
	setDefault(&out.CheckTimeout, DefaultTimeout)
	setDefault(&out.MemoryLimit, 128<<20)
	setDefault(&out.MaxSource, 4_000_000)
	setDefault(&out.MaxOutput, 5<<20)
	setDefault(&out.MaxLog, 64<<10)
	return out
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// gates returns the gates that the options describe. The queues of nested runs
// have room for all of them, because each outermost run has only a few.
func (o Options) gates() *gates {
	var g gates
	for depth := range g {
		all := share.Limits{Total: o.Workers, Each: o.TenantWorkers, Queue: nestedWidth * o.Workers}
		strangers := share.Limits{Each: max(1, o.TenantWorkers/2), Queue: all.Queue}
		if depth == 0 {
			all.Queue, all.QueueEach = o.Queue, (o.Queue+1)/2
			strangers.Queue, strangers.QueueEach = o.Queue, (o.Queue+3)/4
		}
		g[depth] = &gate{share.New[string](all), share.New[string](strangers)}
	}
	return &g
}

// job returns the job for a program. A run has the time that is left in its
// context, and a check has at most CheckTimeout.
func (o Options) job(ctx context.Context, p script.Program, input json.RawMessage, check bool) node.Job {
	l := node.Limits{Timeout: o.Timeout, MaxSource: o.MaxSource, MaxOutput: o.MaxOutput, MaxLog: o.MaxLog}
	deadline, ok := ctx.Deadline()
	left := max(time.Millisecond, time.Until(deadline))
	switch {
	case check && ok:
		l.Timeout = min(left, o.CheckTimeout)
	case check:
		l.Timeout = o.CheckTimeout
	case ok:
		l.Timeout = left
	}
	return node.Job{Check: check, Packages: o.Modules != "", Hash: sha256.Sum256([]byte(p.Source)), Source: p.Source, Input: input, Limits: l}
}
