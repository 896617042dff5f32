package serve

import (
	"errors"
	"flag"
	"io"
	"os"
	"testing"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]string{
		{"-nope"}, {"extra"}, {"-tls-cert", "x"}, {"-tls-key", "x"}, {"-prefix", "a b"}, {"-db", ""}, {"-key-file", ""}, {"-credentials", ""},
		{"-rotate-keys", "acme"}, {"-pooler"}, {"-rotate-keys", everyTenant, "-new-tenant", "Acme"},
		{"-new-tenant", ""}, {"-new-tenant="}, {"-rotate-keys", ""},
		{"-console-url", "console.example"}, {"-console-url", "ftp://console.example"}, {"-console-url", "https://x/?a=b"},
		{"-console", "", "-console-url", "https://console.example"},
	} {
		if _, err := parseFlags(bad, io.Discard); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	c, err := parseFlags([]string{"-allow-private-egress", "-prefix", "BT-"}, io.Discard)
	if err != nil || !c.allowPrivateEgress || c.prefix != "BT-" || c.addr != "127.0.0.1:8080" {
		t.Errorf("%+v %v", c, err)
	}
	if err := Main(t.Context(), []string{"-help"}, os.Getenv, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: %v", err)
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for listener, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080", "[::]:80": "http://127.0.0.1:80", "0.0.0.0:1": "http://127.0.0.1:1",
		":8080": "http://127.0.0.1:8080", "[::1]:9": "http://[::1]:9", "vault.example:443": "http://vault.example:443",
	} {
		if got := (&Config{}).baseURL(listener); got != want {
			t.Errorf("%s: %s, want %s", listener, got, want)
		}
	}
}
