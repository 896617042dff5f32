package vault_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"github.com/seed-72ea4aab/vault"
)

// settings is a configuration that a program prints.
type settings struct {
	Addr   string
	APIKey vault.Secret[string]
	Ptr    *vault.Secret[string]
	Keys   []vault.Secret[[]byte]
	inner  vault.Secret[string]
	nested struct{ key vault.Secret[string] }
	None   vault.Secret[int]
}

func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	const value = "hunter2-value"
	key := vault.NewSecret(value)
	s := settings{Addr: "here", APIKey: key, Ptr: &key, Keys: []vault.Secret[[]byte]{vault.NewSecret([]byte(value))}, inner: key}
	s.nested.key = key
	var out bytes.Buffer
	for _, x := range []any{s, &s, key, &key, []any{key}, map[string]any{"k": key}, s.Keys} {
		for _, verb := range "abcdefghijklmnopqrstuvwxyzTXUGEFO" {
			for _, flags := range []string{"", "+", "#", "20", "-", " "} {
				fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", x)
			}
		}
		text, err := json.Marshal(x)
		if err != nil {
			t.Error(err)
		}
		out.Write(text)
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("m", "x", x, slog.Group("g", "x", x))
		}
		if err := template.Must(template.New("").Parse(`{{ . }}`)).Execute(&out, x); err != nil {
			t.Error(err)
		}
		if err := htmltemplate.Must(htmltemplate.New("").Parse(`{{ . }}<script>{{ . }}</script>`)).Execute(&out, x); err != nil {
			t.Error(err)
		}
	}
	for _, form := range []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value), fmt.Sprint([]byte(value)), "aHVudGVy"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the value is printed as %q", form)
		}
	}
	if got := fmt.Sprintf("%v %s %+v %#v [%v]", key, key, key, key, s.None); got != "hidden hidden hidden hidden []" {
		t.Errorf("it prints as %s", got)
	}
	if key.Reveal() != value || string(s.Keys[0].Reveal()) != value {
		t.Error("Reveal returns another value")
	}
}

func TestSecretReadsJSON(t *testing.T) {
	t.Parallel()
	var s settings
	if err := json.Unmarshal([]byte(`{"Addr":"here","APIKey":"hunter2","Ptr":null,"None":42}`), &s); err != nil {
		t.Fatal(err)
	}
	if s.APIKey.Reveal() != "hunter2" || s.None.Reveal() != 42 || s.None.IsZero() || s.Ptr != nil {
		t.Error("the values are others")
	}
	err := json.Unmarshal([]byte(`{"None":"hunter2"}`), &s)
	if !errors.Is(err, vault.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a value of another type: %v", err)
	}
	if err := json.Unmarshal([]byte(`null`), &s.APIKey); err != nil || !s.APIKey.IsZero() || s.APIKey.Reveal() != "" {
		t.Errorf("null: %v", err)
	}
	text, err := json.Marshal(struct {
		Key vault.Secret[string] `json:"key,omitzero"`
	}{})
	if string(text) != "{}" || err != nil {
		t.Errorf("no value is written as %s, %v", text, err)
	}
}

func TestSecretReadsText(t *testing.T) {
	t.Parallel()
	var text vault.Secret[string]
	var binary vault.Secret[[]byte]
	var number vault.Secret[int]
	source := []byte("hunter2")
	if err := errors.Join(text.UnmarshalText(source), binary.UnmarshalText(source)); err != nil {
		t.Fatal(err)
	}
	source[0] = 'p'
	if text.Reveal() != "hunter2" || string(binary.Reveal()) != "hunter2" {
		t.Error("the values are others")
	}
	if err := number.UnmarshalText([]byte("42")); !errors.Is(err, vault.ErrInvalid) {
		t.Errorf("a number was read from text: %v", err)
	}
}
