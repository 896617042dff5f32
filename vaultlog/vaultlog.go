// Package vaultlog keeps personal data out of logs. Its handler wraps another
// handler of log/slog. It masks card numbers, social security numbers and API keys
// of a vault anywhere in a record:
//
//	logger := slog.New(vaultlog.Handler(slog.NewJSONHandler(os.Stderr, nil), nil))
//	logger.Info("paid", "request", body) // {"msg":"paid","request":"card=XXXXXXXXXXXX4242"}
//
// The handler is a safety net. Keep values out of log calls all the same, because
// it cannot recognize a name or an address. The types of packages vault and vaultsql
// do not print their values in the first place.
package vaultlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Options configures a handler. The zero value is ready to use.
type Options struct {
	// Values are more texts to hide. Nil means none.
	Values *Values
}

// Handler returns a handler that masks records and passes them on to h. Nil options
// mean the defaults.
//
// The handler masks messages, keys and values of attributes, and names of groups.
// It recognizes:
//
//   - card numbers: 12 to 19 digits with a Luhn checksum, also in groups with
//     spaces or dashes between them. The last four digits stay. Digits in UUIDs and
//     in long hexadecimal numbers are skipped, and so are numbers that can be times
//     in milliseconds, microseconds or nanoseconds.
//   - social security numbers with dashes or spaces. The last four digits stay.
//   - API keys of a vault. The kind of the key stays.
//   - registered values: see [Values].
//
// The handler looks into values of any type: numbers, errors, Stringers, structs,
// maps and slices, in the form in which encoding/json and the verb %+v of fmt write
// them. It replaces a value that has to be masked with text, or with the masked tree
// of its JSON. It passes all other values on unchanged. Looking into a struct costs
// about as much as writing it.
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

// Enabled calls the next handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle masks a record and passes it on.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	message := h.mask.text(r.Message)
	changed := message != r.Message
	attrs := make([]slog.Attr, 0, 8) // most records fit on the stack
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

// WithAttrs masks attributes at once, so it does not hide values in them that are
// registered later.
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

// Values are texts that handlers hide, such as a password from a file or the
// name of a customer. The texts stay in memory in plaintext. The zero value
// is empty and ready to use. Values are safe for concurrent use, and handlers
// may share them.
type Values struct {
	mu       sync.Mutex
	counts   map[string]int
	replacer atomic.Pointer[strings.Replacer]
}

// Format prints nothing of the values, for every verb.
func (v *Values) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "vaultlog.Values"+hidden) // Format cannot return an error
}

// LogValue shows nothing of the values.
func (v *Values) LogValue() slog.Value { return slog.StringValue(hidden) }

// MinValue is the minimum length of a registered value in bytes. Shorter values would
// hide parts of other words.
const MinValue = 4

const hidden = "[hidden]"

// Add registers values. It ignores values shorter than MinValue.
func (v *Values) Add(values ...string) { v.change(1, values) }

// Remove undoes Add. A value that was added twice must be removed twice.
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

// build returns a replacer that prefers longer values; nil without values.
func (v *Values) build() *strings.Replacer {
	if len(v.counts) == 0 {
		return nil
	}
	pairs := make([]string, 0, 2*len(v.counts))
	for _, value := range slices.SortedFunc(maps.Keys(v.counts), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, value, hidden)
	}
	return strings.NewReplacer(pairs...)
}

// none reports whether no value is registered.
func (v *Values) none() bool { return v == nil || v.replacer.Load() == nil }

// hide replaces registered values.
func (v *Values) hide(text string) string {
	if v == nil {
		return text
	}
	r := v.replacer.Load()
	if r == nil {
		return text
	}
	return r.Replace(text)
}
