// Package vaultlog keeps personal data out of logs. Its handler stands before
// another handler of log/slog and masks card numbers, social security numbers and
// API keys of a vault, wherever they are in a record:
//
//	logger := slog.New(vaultlog.Handler(slog.NewJSONHandler(os.Stderr, nil), nil))
//	logger.Info("paid", "request", body) // {"msg":"paid","request":"card=XXXXXXXXXXXX4242"}
//
// It is a net below the program, and no replacement for keeping values out of log
// calls: a name or an address looks like any other text. Types of this module do
// not print their values anyway; see Secret in package vault, and package vaultsql.
package vaultlog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Options are settings of a handler. The zero Options are good.
type Options struct {
	// Values are texts that the program wants hidden, besides those that the
	// handler recognizes.
	Values *Values
}

// Handler returns a handler that masks what goes to h. Nil options are the zero
// Options.
//
// These are masked in messages, in keys and values of attributes, and in names of
// groups:
//
//   - card numbers: 12 to 19 digits with a Luhn checksum, also in groups with
//     spaces or dashes between them. The last four digits stay. Digits in a UUID
//     or a long hexadecimal number do not count, nor does a number that can be a
//     time in milliseconds, microseconds or nanoseconds.
//   - social security numbers, with dashes or spaces. The last four digits stay.
//   - API keys of a vault. Their kind stays.
//   - registered values: see [Values].
//
// Values of any type are looked into: numbers, errors, Stringers, and the fields of
// structs, maps and slices, as encoding/json and the verb %+v of fmt write them. A
// value with something to mask is replaced by text, or by the tree that its JSON
// is; every other one is passed on as it is. Looking into a struct costs about as
// much as writing it.
func Handler(h slog.Handler, opts *Options) slog.Handler {
	m := &masker{}
	if opts != nil {
		m.values = opts.Values
	}
	return &handler{h, m}
}

type handler struct {
	next slog.Handler
	mask *masker
}

// Enabled reports what the next handler does.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle masks a record and passes it on.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	message := h.mask.text(r.Message)
	changed := message != r.Message
	attrs := make([]slog.Attr, 0, 8) // on the stack, for most records
	r.Attrs(func(a slog.Attr) bool {
		masked, differs := h.mask.attr(a)
		attrs, changed = append(attrs, masked), changed || differs
		return true
	})
	if !changed {
		return h.next.Handle(ctx, r)
	}
	masked := slog.NewRecord(r.Time, r.Level, message, r.PC)
	masked.AddAttrs(attrs...)
	return h.next.Handle(ctx, masked)
}

// WithAttrs masks attributes at once: values that are registered later are not
// hidden in them.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i], _ = h.mask.attr(a)
	}
	return &handler{h.next.WithAttrs(masked), h.mask}
}

// WithGroup masks the name of a group.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(h.mask.text(name)), h.mask}
}

// Values are texts that handlers hide: a password that was read from a file, the
// name of the person whose request is served. They are kept in memory in clear.
// The zero Values are empty. They are safe for concurrent use, and any number of
// handlers may share them.
type Values struct {
	mu       sync.Mutex
	counts   map[string]int
	replacer atomic.Pointer[strings.Replacer]
}

// MinValue is how many bytes a registered value must have. Hiding shorter texts
// would hide parts of other words.
const MinValue = 4

const hidden = "[hidden]"

// Add registers values. Those of fewer than MinValue bytes are ignored.
func (v *Values) Add(values ...string) { v.change(1, values) }

// Remove ends what Add began. A value that was added twice has to be removed
// twice.
func (v *Values) Remove(values ...string) { v.change(-1, values) }

func (v *Values) change(by int, values []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.counts == nil {
		v.counts = map[string]int{}
	}
	for _, value := range values {
		if len(value) < MinValue {
			continue
		}
		if v.counts[value] += by; v.counts[value] <= 0 {
			delete(v.counts, value)
		}
	}
	v.replacer.Store(v.build())
}

// build returns a replacer that prefers longer values; nil when there are none.
func (v *Values) build() *strings.Replacer {
	var all []string
	for value := range v.counts {
		all = append(all, value)
	}
	if all == nil {
		return nil
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, value := range all {
		pairs = append(pairs, value, hidden)
	}
	return strings.NewReplacer(pairs...)
}

// hide replaces registered values.
func (v *Values) hide(text string) string {
	if v == nil {
		return text
	}
	if r := v.replacer.Load(); r != nil {
		return r.Replace(text)
	}
	return text
}
