package vaultlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"encoding/json"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultlog"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	card = "4242424242424242"
	key  = "key_prv_7vYQzTzXrV2sSg4CXJrD8kUfG5hBnWmA9c3eHt"
)

// withoutTime drops the time of records.
var withoutTime = &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}}

// logged returns the text that a masked logger writes.
func logged(opts *vaultlog.Options, message string, args ...any) string {
	var out strings.Builder
	slog.New(vaultlog.Handler(slog.NewTextHandler(&out, withoutTime), opts)).Info(message, args...)
	return strings.TrimSuffix(out.String(), "\n")
}

func TestTextIsMasked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "",
		"nothing to see, 200 OK in 5s": "nothing to see, 200 OK in 5s",
		card:                           "XXXXXXXXXXXX4242",
		"card=" + card + ";":           "card=XXXXXXXXXXXX4242;",
		"PAN" + card + "end":           "PANXXXXXXXXXXXX4242end",
		"4242 4242 4242 4242":          "XXXX XXXX XXXX 4242",
		"4242-4242-4242-4242, twice 5555555555554444": "XXXX-XXXX-XXXX-4242, twice XXXXXXXXXXXX4444",
		"3782 822463 10005":                           "XXXX XXXXXX X0005",
		"order 12 " + card + " 12/30":                 "order 12 XXXXXXXXXXXX4242 12/30",
		"4242 4242 4242 4242 12 30":                   "XXXX XXXX XXXX 4242 12 30",
		"4242424242424241":                            "4242424242424241",           // the checksum is wrong
		"42424242424242424242424242":                  "42424242424242424242424242", // too long
		"000000000000":                                "000000000000",
		"ssn 123-45-6789.":                            "ssn XXX-XX-6789.",
		"123 45 6789":                                 "XXX XX 6789",
		"123-45 6789":                                 "123-45 6789",
		"call 555-1234-123-45-6789":                   "call 555-1234-XXX-XX-6789",
		"123456789":                                   "123456789",
		key:                                           "key_prv_" + strings.Repeat("X", len(key)-len("key_prv_")),
		"Authorization: Bearer " + key[:24] + "...":   "Authorization: Bearer key_prv_XXXXXXXXXXXXXXXX...",
		"key_prv_short and key_other":                 "key_prv_short and key_other",
		"019b7960-1234-7000-8002-200400641780":        "019b7960-1234-7000-8002-200400641780",
		"4bf92f3577b34da6a3ce929d0e0e4736":            "4bf92f3577b34da6a3ce929d0e0e4736",
		"0042424242424242424242abcdefabcdef0123":      "0042424242424242424242abcdefabcdef0123",
		"1700000000004 1700000000000000008":           "1700000000004 1700000000000000008", // times
		"é" + card + "日":                              "éXXXXXXXXXXXX4242日",
		"192.168.100.200":                             "192.168.100.200",
	} {
		var out bytes.Buffer
		slog.New(vaultlog.Handler(slog.NewJSONHandler(&out, nil), nil)).Info(text)
		var record struct{ Msg string }
		if err := json.Unmarshal(out.Bytes(), &record); err != nil || record.Msg != want {
			t.Errorf("%q is masked as %q, want %q (%v)", text, record.Msg, want, err)
		}
	}
}

type stringer struct{ text string }

func (s stringer) String() string { return s.text }

type valuer struct{ v slog.Value }

func (v valuer) LogValue() slog.Value { return v.v }

type customer struct {
	Name  string
	Card  string            `json:"card"`
	Num   int64             `json:"num,omitempty"`
	Extra map[string]string `json:"extra,omitempty"`
	inner string
}

// Everything in a record is masked, in text and in JSON.
func TestEveryValueIsMasked(t *testing.T) {
	t.Parallel()
	leak := fmt.Errorf("charging: %w", errors.New("declined "+card))
	var nobody *stringer
	for name, value := range map[string]any{
		"string": card, "int": 4242424242424242, "uint": uint64(4242424242424242), "float": 4242424242424242.0,
		"error": leak, "joined": errors.Join(io.EOF, leak), "stringer": stringer{"is " + card}, "pointer": &stringer{card}, "bytes": []byte("a " + card),
		"raw": json.RawMessage(`{"n":` + card + `}`), "struct": customer{Name: "Jane", Card: card}, "number": customer{Num: 4242424242424242},
		"map": map[string]any{"a": []any{1, map[string]any{"b": card}}}, "key of a map": map[string]int{card: 1}, "slice": []string{"x", card},
		"deep": customer{Extra: map[string]string{"k": "v " + card}}, "unexported": customer{inner: card}, "token": []vault.TokenParams{{Data: card}},
		"group": slog.GroupValue(slog.Group("g", slog.Group("h", "k", card))), "valuer": valuer{slog.StringValue(card)},
		"group of a valuer": valuer{slog.GroupValue(slog.Any("x", customer{Card: card}))}, "valuer of a valuer": valuer{slog.AnyValue(valuer{slog.AnyValue(leak)})},
		"array": [2]string{card, card}, "channel": map[string]any{"c": make(chan int), "card": card}, "header": map[string][]string{"Authorization": {"Bearer " + key}},
	} {
		for _, form := range []func(io.Writer, *slog.HandlerOptions) slog.Handler{
			func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(w, o) },
			func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(w, o) },
		} {
			var out bytes.Buffer
			logger := slog.New(vaultlog.Handler(form(&out, nil), nil))
			logger.Info("m", "x", value, "nil", nil, "nobody", nobody)
			logger.With("x", value).WithGroup("g").Info("m", slog.Group("h", "x", value))
			got := out.String()
			if strings.Contains(got, card[:12]) || strings.Contains(got, key[8:]) || strings.Count(got, "\n") != 2 {
				t.Errorf("%s: %s", name, got)
			}
			if !strings.Contains(got, "XXXX") {
				t.Errorf("%s: nothing was masked: %s", name, got)
			}
		}
	}
	if got, want := logged(nil, card, card, 1), `level=INFO msg=XXXXXXXXXXXX4242 XXXXXXXXXXXX4242=1`; got != want {
		t.Errorf("message and key: %s", got)
	}
	if got := slogOfGroup(); got != "level=INFO msg=m XXXXXXXXXXXX4242.a=1\n" {
		t.Errorf("the name of a group: %s", got)
	}
}

func slogOfGroup() string {
	var out strings.Builder
	slog.New(vaultlog.Handler(slog.NewTextHandler(&out, withoutTime), nil)).WithGroup(card).Info("m", "a", 1)
	return out.String()
}

// capture keeps the attributes of a record.
type capture struct {
	slog.Handler
	attrs map[string]any
	pc    uintptr
}

func (c *capture) Enabled(context.Context, slog.Level) bool { return true }

func (c *capture) Handle(_ context.Context, r slog.Record) error {
	c.pc = r.PC
	r.Attrs(func(a slog.Attr) bool { c.attrs[a.Key] = a.Value.Any(); return true })
	return nil
}

// A value without anything to mask is passed on unchanged, next to a masked
// value.
func TestOtherValuesStayUnchanged(t *testing.T) {
	t.Parallel()
	c := &capture{attrs: map[string]any{}}
	now := time.Now()
	want := map[string]any{"err": io.EOF, "struct": customer{Name: "Jane"}, "n": int64(200), "d": time.Second, "t": now, "b": true, "f": 1.5, "big": 1e300,
		"card": "XXXXXXXXXXXX4242"}
	slog.New(vaultlog.Handler(c, nil)).Info("m", "err", io.EOF, "struct", customer{Name: "Jane"}, "n", 200, "d", time.Second, "t", now,
		"b", true, "f", 1.5, "big", 1e300, "card", card)
	if !errors.Is(c.attrs["err"].(error), io.EOF) {
		t.Error("the error was replaced")
	}
	delete(c.attrs, "err")
	delete(want, "err")
	must.Same(t, "attributes", want, c.attrs, cmp.AllowUnexported(customer{}))
	if c.pc == 0 {
		t.Error("the PC of the record is lost")
	}
}

func TestRegisteredValuesAreHidden(t *testing.T) {
	t.Parallel()
	values := &vaultlog.Values{}
	opts := &vaultlog.Options{Values: values}
	if got := logged(opts, "hunter2 is here"); !strings.Contains(got, "hunter2") {
		t.Errorf("before it is registered: %s", got)
	}
	values.Add("hunter2", "hunter2 and more", "abc", "", "Jane Doe")
	values.Add("hunter2")
	for _, tt := range [][2]string{
		{"is hunter2.", `msg="is [hidden]."`},
		{"hunter2 and more and abc", `msg="[hidden] and abc"`},
		{"by Jane Doe (" + card + ")", `msg="by [hidden] (XXXXXXXXXXXX4242)"`},
	} {
		if got := logged(opts, tt[0]); got != "level=INFO "+tt[1] {
			t.Errorf("got %s, want %s", got, tt[1])
		}
	}
	if got := logged(opts, "m", "e", errors.New("no hunter2"), "s", customer{Name: "Jane Doe"}); strings.Contains(got, "hunter2") || strings.Contains(got, "Jane") {
		t.Error(got)
	}
	values.Add("20471104")
	if got := logged(opts, "m", "n", 20471104, "f", 1.5); got != "level=INFO msg=m n=[hidden] f=1.5" {
		t.Errorf("a number: %s", got)
	}
	values.Remove("20471104")
	values.Remove("hunter2")
	if got := logged(opts, "hunter2"); strings.Contains(got, "hunter2") {
		t.Error("a value that was added twice is shown after one Remove")
	}
	values.Remove("hunter2", "hunter2 and more", "Jane Doe", "never added")
	if got := logged(opts, "hunter2"); !strings.Contains(got, "hunter2") {
		t.Errorf("after Remove: %s", got)
	}
}

func TestValuesAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	values := &vaultlog.Values{}
	logger := slog.New(vaultlog.Handler(slog.NewTextHandler(io.Discard, nil), &vaultlog.Options{Values: values}))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				value := fmt.Sprint("value", i)
				values.Add(value)
				logger.Info("has " + value)
				values.Remove(value)
			}
		})
	}
	wg.Wait()
}

// The API keys that a vault creates are recognized.
func TestVaultKeysAreMasked(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	session := must.Get(v.Public.CreateSession(t.Context()))(t)
	for _, k := range []string{v.PublicKey, v.PrivateKey, v.ManagementKey, session.SessionKey} {
		if got := logged(nil, "with "+k+"!"); strings.Contains(got, k[12:]) || !strings.Contains(got, k[:8]) {
			t.Errorf("a key is shown as %s", got)
		}
	}
}

// The handler follows the rules of package slog for handlers.
func TestHandlerRules(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return vaultlog.Handler(slog.NewJSONHandler(&out, nil), nil)
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		must.Do(t, json.Unmarshal(out.Bytes(), &m))
		return m
	})
	h := vaultlog.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}), nil)
	if h.Enabled(t.Context(), slog.LevelInfo) || !h.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("Enabled differs from the next handler")
	}
}

func ExampleHandler() {
	logger := slog.New(vaultlog.Handler(slog.NewTextHandler(stdout{}, withoutTime), nil))
	logger.Info("paid with 4242 4242 4242 4242", "err", errors.New("no match for 123-45-6789"))
	// Output: level=INFO msg="paid with XXXX XXXX XXXX 4242" err="no match for XXX-XX-6789"
}

// stdout is where examples write.
type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return fmt.Print(string(p)) }

// BenchmarkHandler measures a record with a JSON handler, and with masking
// before it.
//
//	go test -run '^$' -bench . ./vaultlog
func BenchmarkHandler(b *testing.B) {
	attrs := map[string][]any{
		"plain":  {"method", "POST", "path", "/v1/orders/019b7960-1234-7000-8002-200400641780", "status", 201, "took", 3 * time.Millisecond},
		"masked": {"method", "POST", "card", card, "status", 201, "took", 3 * time.Millisecond},
		"struct": {"customer", customer{Name: "Jane", Extra: map[string]string{"k": "v"}}, "err", io.EOF},
	}
	values := &vaultlog.Values{}
	for i := range 100 {
		values.Add(fmt.Sprint("registered value ", i))
	}
	bare := slog.NewJSONHandler(io.Discard, nil)
	for _, record := range []string{"plain", "masked", "struct"} {
		for _, h := range []struct {
			name string
			slog.Handler
		}{{"bare", bare}, {"vaultlog", vaultlog.Handler(bare, nil)}, {"vaultlog+100values", vaultlog.Handler(bare, &vaultlog.Options{Values: values})}} {
			b.Run(record+"/"+h.name, func(b *testing.B) {
				logger := slog.New(h)
				b.ReportAllocs()
				for b.Loop() {
					logger.Info("the order was placed", attrs[record]...)
				}
			})
		}
	}
}
