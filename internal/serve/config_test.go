package serve

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	const everything = "--console-url, --console-link-file, --console-header, --console-proxies and --console-oidc need --console"
	for want, all := range map[string][][]string{
		"flag provided but not defined: -nope":                   {{"-nope"}},
		"the program takes flags only":                           {{"extra"}},
		"--tls-cert and --tls-key must be given together":        {{"-tls-cert", "x"}, {"-tls-key", "x"}},
		"--tls-cert and --tls-key: open no-such-file: no such":   {{"-tls-cert", "no-such-file", "-tls-key", "no-such-file"}},
		"Options.Prefix may contain only letters":                {{"-prefix", "a b"}},
		"--db and --key-file must not be empty":                  {{"-db", ""}, {"-key-file", ""}},
		"--credentials must not be empty":                        {{"-credentials", ""}},
		"--rotate-keys takes the id of a tenant":                 {{"-rotate-keys", "acme"}},
		"-rotate-keys must not be empty":                         {{"-rotate-keys", ""}},
		"--pooler needs a postgres:// URL in --db":               {{"-pooler"}},
		"--new-tenant and --rotate-keys cannot be combined":      {{"-rotate-keys", everyTenant, "-new-tenant", "Acme"}},
		"-new-tenant must not be empty":                          {{"-new-tenant", ""}, {"-new-tenant="}},
		"--console-url must be a URL such as":                    {{"-console-url", "console.example"}, {"-console-url", "ftp://console.example"}, {"-console-url", "https://x/?a=b"}},
		everything:                                               {{"-console", "", "-console-url", "https://console.example"}, {"-console", "", "-console-header", "X-User"}},
		"--console must be an address such as":                   {{"-console", "8081"}},
		"--console-proxies needs --console-header":               {{"-console-proxies", "10.0.0.1"}},
		"for flag -console-proxies: takes addresses":             {{"-console-header", "X-User", "-console-proxies", "proxy.example"}},
		"--console-header-role: a role is":                       {{"-console-header-role", "root"}},
		"--console-header cannot be used with --allow-private":   {{"-console-header", "X-User", "-allow-private-egress"}},
		"--addr must be an address such as":                      {{"-addr", "8080"}, {"-addr", "127.0.0.1:http:1"}, {"-addr", "127.0.0.1:70000"}},
		"--drain-delay and --shutdown-timeout must not be":       {{"-drain-delay", "-1s"}, {"-shutdown-timeout", "-1s"}},
		"for flag -drain-delay: parse error":                     {{"-drain-delay", "5"}},
		`"shop.example" in Options.Origins is not an origin`:     {{"-cors-origins", "shop.example"}},
		"for flag -cors-origins: a part of the list is empty":    {{"-cors-origins", "https://a.example,,"}},
		"--rate-limit and --rate-burst must not be negative":     {{"-rate-limit", "-1"}, {"-rate-limit", "NaN"}},
		"--rate-burst needs --rate-limit":                        {{"-rate-burst", "10"}},
		"--max-conns must be at least 2":                         {{"-max-conns", "1"}},
		"--log-format must be text or json":                      {{"-log-format", "xml"}},
		"--modules: stat no-such-folder":                         {{"-modules", "no-such-folder"}},
		"for flag -log-retention: must be a time of at least":    {{"-log-retention", "1h"}, {"-log-retention", "365d"}},
		"--metrics-addr must be an address such as":              {{"-metrics-addr", "9090"}},
		"--forward must be an address such as":                   {{"-forward", "8888"}},
		"--evidence-verify-every must be at least 1m":            {{"-evidence-verify-every", "0"}},
		"for flag -trusted-proxy: takes addresses and networks,": {{"-trusted-proxy", "proxy.example"}, {"-trusted-proxy", "10.0.0.0/40"}},
	} {
		for _, bad := range all {
			must.Fail(parseFlags(bad, io.Discard))(t, fmt.Sprintf("%v was accepted", bad), must.Text(want))
		}
	}
	c, err := parseFlags([]string{"-allow-private-egress", "-prefix", "BT-"}, io.Discard)
	if err != nil || !c.AllowPrivateEgress || c.prefix != "BT-" || c.addr != "127.0.0.1:8080" {
		t.Errorf("%+v %v", c, err)
	}
	c, err = parseFlags([]string{"-full-audit", "-trusted-proxy", "10.0.0.7/8,::1", "-trusted-proxy", "192.0.2.7"}, io.Discard)
	if got := c.options().TrustedProxies; err != nil || !c.fullAudit || fmt.Sprint(got) != "[10.0.0.0/8 ::1/128 192.0.2.7/32]" {
		t.Errorf("%v %v", got, err)
	}
	for _, retention := range []struct {
		text string
		want time.Duration
	}{{"8760h", 8760 * time.Hour}, {"", 0}} {
		c = must.Get(parseFlags([]string{"-log-retention", "48h", "-log-retention", retention.text}, io.Discard))(t)
		must.Same(t, "-log-retention "+retention.text, retention.want, c.logRetention)
	}
	must.Match(t, "-help", Main(t.Context(), []string{"-help"}, OIDC{}, os.Getenv, io.Discard, io.Discard), flag.ErrHelp)
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for listener, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080", "[::]:80": "http://127.0.0.1:80", "0.0.0.0:1": "http://127.0.0.1:1",
		":8080": "http://127.0.0.1:8080", "[::1]:9": "http://[::1]:9", "vault.example:443": "http://vault.example:443",
	} {
		must.Same(t, listener, want, baseURL(listener, false))
	}
}

// TestInvalidFlagsCreateNothing starts servers that cannot run, and rotations without
// a database, a key or tenants, as after a mistyped flag. It checks that they leave no
// files behind.
func TestInvalidFlagsCreateNothing(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	const noTenant = "7f1a6f56-7a0e-4b5a-9c62-2f6a2b1f0c11"
	key, rotate, rotateOne := vault.NewKey().Text(), []string{"-rotate-keys", everyTenant}, []string{"-rotate-keys", noTenant}
	for name, c := range map[string]struct {
		args      []string
		files     []string // existing files, which are empty except for the key
		masterKey string   // in the environment
		says      string
	}{
		"an address that is none":       {args: []string{"-addr", "localhost"}, says: "--addr must be an address such as"},
		"an address that is taken":      {args: []string{"-addr", taken.Addr().String()}, says: "address already in use"},
		"metrics at a taken address":    {args: []string{"-metrics-addr", taken.Addr().String()}, says: "address already in use"},
		"headers that are missing":      {args: []string{"-log-sink", "a=https://a.example", "-log-sink-headers", "a=x"}, says: "open x: no such file"},
		"a console at a taken address":  {args: []string{"-console", taken.Addr().String()}, says: "address already in use"},
		"a certificate that is missing": {args: []string{"-tls-cert", "x", "-tls-key", "y"}, says: "open x: no such file"},

		"rotate, no database":              {rotate, []string{"k"}, "", "v.db"},
		"rotate one, no database":          {rotateOne, []string{"k"}, "", "v.db"},
		"rotate, no database but the key":  {rotate, nil, key, "v.db"},
		"rotate, neither":                  {rotate, nil, "", "v.db"},
		"rotate, in memory":                {append([]string{"-db", ":memory:"}, rotate...), nil, key, "needs an existing database"},
		"rotate, no key":                   {rotate, []string{"v.db"}, "", "read the master key"},
		"rotate, no tenants":               {rotate, []string{"k", "v.db"}, "", "no tenants"},
		"rotate, a tenant that is missing": {rotateOne, []string{"k", "v.db"}, "", "tenant " + noTenant + ": "},
	} {
		dir := t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		for _, file := range c.files {
			must.Do(t, os.WriteFile(in(file), []byte(map[string]string{"k": key}[file]), 0o600))
		}
		args := append([]string{"-addr", "127.0.0.1:0", "-db", in("v.db"), "-key-file", in("k"), "-credentials", in("c.json")}, c.args...)
		getenv := func(name string) string { return map[string]string{masterKeyVariable: c.masterKey}[name] }
		var out strings.Builder
		must.Match(t, name, Main(t.Context(), args, OIDC{}, getenv, &out, io.Discard), must.Text(c.says))
		must.Same(t, name+": output", "", out.String())
		var left []string
		for _, entry := range must.Get(os.ReadDir(dir))(t) {
			left = append(left, entry.Name())
		}
		must.Same(t, name+": files", c.files, left)
	}
}

// TestServeCreatesAKeyOnlyOnRequest checks that the tool's server creates a master key only
// on request, and never a tenant.
func TestServeCreatesAKeyOnlyOnRequest(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		dir := t.TempDir()
		var tool Config
		f := flag.NewFlagSet("", flag.ContinueOnError)
		tool.Flags(f)
		args := []string{"-addr", "127.0.0.1:0", "-drain-delay", "0", "-db", filepath.Join(dir, "v.db"), "-key-file", filepath.Join(dir, "k")}
		if asked {
			args = append(args, "-create-key")
		}
		must.Do(t, f.Parse(args))
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it serves nothing and returns
		err := tool.Serve(ctx, func(string) string { return "" }, io.Discard, io.Discard)
		if !asked && (err == nil || !strings.Contains(err.Error(), "--create-key")) {
			t.Errorf("without a key: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "k")); (err == nil) != asked {
			t.Errorf("asked %t: %v", asked, err)
		}
		if tool.demo || tool.printLink {
			t.Error("the tool has a demo tenant, or prints a link")
		}
	}
}

// TestFlagsSetTheOptionsOfTheAPI checks that the flags set the options.
func TestFlagsSetTheOptionsOfTheAPI(t *testing.T) {
	t.Parallel()
	c := must.Get(parseFlags([]string{"-cors-origins", "https://a.example, https://b.example", "-rate-limit", "2.5", "-request-log=false", "-schema", "s", "-max-conns", "9", "-db", "postgres://db/vault"}, io.Discard))(t)
	o := c.options()
	if len(o.Origins) != 2 || o.Origins[1] != "https://b.example" || o.RateLimit == nil || c.requestLog {
		t.Errorf("%+v", o)
	}
	if pg := c.Postgres(storage.MigrateAuto); pg.Schema != "s" || pg.MaxConns != 9 {
		t.Errorf("%+v", pg)
	}
}
