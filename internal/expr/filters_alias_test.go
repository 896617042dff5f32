package expr_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestAliasFilters(t *testing.T) {
	t.Parallel()
	tests := []struct{ use, data, form string }{
		{"alias_card", "4242424242424242", `^\d{16}$`},
		{"alias_card", "4242-4242 4242.4242", `^\d{4}-\d{4} \d{4}\.\d{4}$`},
		{"alias_card: true", "4242-4242-4242-4242", `^4242-4242-\d{4}-\d{4}$`},
		{"alias_card: 'false', 'true'", "4000123412341234", `^\d{12}1234$`},
		{"alias_card: 'true', 'true'", "378282246310005", `^378282\d{5}0005$`},
		{"alias_card: reveal_last4=true", "4000123412341234", `^\d{12}1234$`},
		{"alias_card: true, true", "123456789012", `^123456\d\d9012$`},
		{"alias_card: true, true", "1234567890", `^\d{10}$`},
		{"alias_preserve_format", "123-45-6789", `^\d{3}-\d\d-\d{4}$`},
		{"alias_preserve_format", "Jane Doe, 42 (é)", `^[A-Z][a-z]{3} [A-Z][a-z]{2}, \d\d \([a-z]\)$`},
		{"alias_preserve_format: 6", "4242424242424242", `^424242\d{10}$`},
		{"alias_preserve_format: 0, 4", "(555) 010-1234", `^\(\d{3}\) \d{3}-1234$`},
		{"alias_preserve_format: 2, 2", "1234", `^\d{4}$`},
		{"alias_preserve_format", "7", `^\d$`},
		{"alias_preserve_length", "jane doe", `^[A-Za-z0-9]{8}$`},
		{"alias_preserve_length: 1, 2", "jäne döé", `^j[A-Za-z0-9]{5}öé$`},
		{"alias_preserve_length: first: 9", "abc", `^[A-Za-z0-9]{3}$`},
	}
	for _, tt := range tests {
		t.Run(tt.use+" of "+tt.data, func(t *testing.T) {
			t.Parallel()
			form, seen := regexp.MustCompile(tt.form), map[string]bool{}
			for range 50 {
				got := aliasOf(t, tt.use, tt.data, nil)
				seen[got] = true
				if !form.MatchString(got) {
					t.Errorf("got %q, want the form %s", got, tt.form)
				}
				if got == tt.data {
					t.Error("an alias equals its value")
				}
			}
			if len(seen) < 5 {
				t.Errorf("50 aliases have only %d values", len(seen))
			}
		})
	}
}

func aliasOf(t *testing.T, use, data string, random io.Reader) string {
	t.Helper()
	template := must.Get(expr.Compile("{{ data | " + use + " }}"))(t)
	env := expr.Data(jsonx.StringValue(data), jsonx.Value{}, nil)
	env.Rand = random
	v := must.Get(template.Eval(env))(t)
	return v.Text()
}

// TestAliasIsUnbiased feeds every byte equally often. Every digit must then
// occur equally often.
func TestAliasIsUnbiased(t *testing.T) {
	t.Parallel()
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	random := bytes.NewReader(bytes.Repeat(all[:], 4))
	got := aliasOf(t, "alias_preserve_format", strings.Repeat("5", 500), random)
	for _, digit := range "0123456789" {
		must.Same(t, fmt.Sprintf("the digit %c occurs", digit), 50, strings.Count(got, string(digit)))
	}
}

func TestAliasFailures(t *testing.T) {
	t.Parallel()
	broken := iotest.ErrReader(errors.New("no entropy"))
	useless := bytes.NewReader(bytes.Repeat([]byte{255}, 10_000))
	tests := []struct {
		name, use, want string
		data            jsonx.Value
		random          io.Reader
	}{
		{"broken source", "alias_card", "source of random bytes failed", jsonx.StringValue("4242424242424242"), broken},
		{"useless source", "alias_card", "source of random bytes failed", jsonx.StringValue("4242424242424242"), useless},
		{"nothing to replace", "alias_card", "nothing to replace", jsonx.StringValue("secret"), nil},
		{"nothing to replace in form", "alias_preserve_format", "nothing to replace", jsonx.StringValue("--"), nil},
		{"empty", "alias_preserve_length", "nothing to replace", jsonx.StringValue(""), nil},
		{"array", "alias_preserve_length", "needs text, not an array", jsonx.ArrayValue(), nil},
		{"bad flag", "alias_card: 'maybe'", "must be true or false", jsonx.StringValue("1"), nil},
		{"bad count", "alias_preserve_format: -1", "must be an integer", jsonx.StringValue("1"), nil},
		{"too many", "alias_preserve_length: 1, 2, 3", "too many arguments", jsonx.StringValue("1"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			template, err := expr.Compile("{{ data | " + tt.use + " }}")
			if err == nil {
				env := expr.Data(tt.data, jsonx.Value{}, nil)
				env.Rand = tt.random
				_, err = template.Eval(env)
			}
			must.Match(t, tt.use, err, must.Text(tt.want))
		})
	}
	must.Same(t, "alias of null", "null", must.Get(eval(t, "{{ data | alias_card }}", "null"))(t))
}
