// Command ways counts the functions of this module that a request passes over HTTP: a
// create of a card, a read of it, a proxy call whose body has its number, and a run of
// a reactor with it.
//
//	go run -cover -covermode=atomic -coverpkg=./... ./internal/test/ways
//
// The vault is on SQLite without evidence, and each request was sent before, so that
// caches are warm. The functions of worker processes are not counted. With a folder as
// its argument, the command writes the names of the functions of each way to a file.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/coverage"
	"strings"
	"text/tabwriter"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func main() {
	names := ""
	if len(os.Args) > 1 {
		names = os.Args[1]
	}
	if err := run(context.Background(), names); err != nil {
		log.Fatal(err)
	}
}

// way is a request and the status of its response.
type way struct {
	name, method, path, body string
	header                   http.Header
	want                     int
}

// run sends the requests to a vault, and prints how many functions each has passed.
func run(ctx context.Context, names string) (err error) {
	destination := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	defer destination.Close()
	folder, err := os.MkdirTemp("", "ways")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	store, err := sqlite.Open(ctx, filepath.Join(folder, "vault.db"))
	if err != nil {
		return err
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{
		Runtime: jsruntime.New(nil), SweepEvery: -1, WorkEvery: -1,
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	ways, err := prepare(ctx, v, destination.URL)
	if err != nil {
		return err
	}
	server := httptest.NewServer(httpserver.Handler(v, nil))
	defer server.Close()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "way\tfunctions\tpackages")
	for _, w := range ways {
		passed, err := count(ctx, server.URL, &w, filepath.Join(folder, w.name))
		if err == nil && names != "" {
			err = os.WriteFile(filepath.Join(names, w.name), []byte(strings.Join(passed, "\n")+"\n"), 0o600)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\n", w.name, len(passed), packages(passed))
	}
	return table.Flush()
}

// prepare returns the requests, for a new tenant with a token, a proxy and a reactor.
func prepare(ctx context.Context, v *vault.Vault, destination string) ([]way, error) {
	tenant, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		return nil, err
	}
	c := v.Tenant(tenant.ID)
	app, err := c.CreateApplication(ctx, vault.ApplicationParams{
		Name: "ways", Type: vault.ApplicationPrivate, Permissions: vault.AllPermissions(vault.ApplicationPrivate),
	})
	if err != nil {
		return nil, err
	}
	token, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(`{"number":"4242424242424242"}`)})
	if err != nil {
		return nil, err
	}
	proxy, err := c.CreateProxy(ctx, vault.ProxyParams{Name: "ways", DestinationURL: destination})
	if err != nil {
		return nil, err
	}
	reactor, err := c.CreateReactor(ctx, vault.ReactorParams{Name: "ways", Code: "module.exports = async (req) => ({ raw: { last4: req.args.number.slice(-4) } });"})
	if err != nil {
		return nil, err
	}
	key := func(more ...string) http.Header {
		h := http.Header{"Svc-Api-Key": {app.Key}, "Content-Type": {"application/json"}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	number := "{{ " + token.ID + " | json: '$.number' }}"
	return []way{
		{"create", "POST", "/tokens", `{"type":"card","data":{"number":"4000000000000002","expiration_month":12,"expiration_year":2040}}`, key(), http.StatusCreated},
		{"read", "GET", "/tokens/" + token.ID, "", key(), http.StatusOK},
		{"proxy", "POST", "/proxy", `{"number":"` + number + `"}`, key("SVC-PROXY-KEY", proxy.Key), http.StatusOK},
		{"run", "POST", "/reactors/" + reactor.ID.String() + "/react", `{"args":{"number":"` + number + `"}}`, key(), http.StatusOK},
	}, nil
}

// warm is how often a request is sent before its functions are counted.
const warm = 20

// count sends the request of a way, and returns the functions that it has passed.
func count(ctx context.Context, url string, w *way, folder string) ([]string, error) {
	for range warm {
		if err := w.send(ctx, url); err != nil {
			return nil, err
		}
	}
	if err := coverage.ClearCounters(); err != nil {
		return nil, fmt.Errorf("%w: run the command with the flags in its documentation", err)
	}
	if err := w.send(ctx, url); err != nil {
		return nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	if err := cmp.Or(coverage.WriteCountersDir(folder), coverage.WriteMetaDir(folder)); err != nil {
		return nil, err
	}
	profile := filepath.Join(folder, "profile")
	if out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+folder, "-o="+profile).CombinedOutput(); err != nil { //nolint:gosec // its own folder
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "cover", "-func="+profile).Output() //nolint:gosec // its own file
	if err != nil {
		return nil, err
	}
	var passed []string
	for line := range bytes.Lines(out) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] != "total:" && f[2] != "0.0%" && !strings.Contains(f[0], "/internal/test/") {
			passed = append(passed, f[0]+" "+f[1])
		}
	}
	return passed, nil
}

// send sends the request of a way.
func (w *way) send(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, w.method, url+w.path, strings.NewReader(w.body))
	if err != nil {
		return err
	}
	req.Header = w.header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != w.want {
		err = fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return err
}

// packages returns the number of packages that have one of the functions.
func packages(functions []string) int {
	own := map[string]bool{}
	for _, f := range functions {
		file, _, _ := strings.Cut(f, ":")
		own[path.Dir(file)] = true
	}
	return len(own)
}
