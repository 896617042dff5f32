package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/manifest"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

func proxyCommands() []*command {
	return []*command{
		{
			name: "proxy list", reach: bothWays, summary: "list proxies, newest first",
			example: "tokenvault proxy list --tenant Acme",
			act:     inTenant(proxies.list),
		},
		{
			name: "proxy get", args: "ID|NAME", min: 1, max: 1, reach: bothWays, summary: "show a proxy with its key and code",
			about:   "Only --json shows the values of the configuration.",
			example: "tokenvault proxy get Gateway --tenant Acme",
			act:     inTenant(proxies.show),
		},
		applyCommand(manifest.Proxy, manifest.Proxy, codeAbout+`
			A proxy has name, destination_url, require_auth, configuration, application, and
			request_transform and response_transform with code or code_file. Without these
			the code is in the files beside it that have the same name and end in
			.request.js and .response.js.`,
			"tokenvault proxy apply -f proxies/ --tenant Acme --dry-run\ntokenvault proxy apply -f proxies/gateway.yaml --tenant Acme --yes",
			planProxy),
		{
			name: "proxy run", args: "[ID|NAME]", max: 1, reach: bothWays, asks: true, summary: "send a request through a proxy",
			about: `Prints the body of the response, and its status on standard error. Exits with 1
				if the status is 400 or above. --data - reads the body from standard input. The
				response may hold plaintext, so it asks before it prints to a terminal.
				TOKENVAULT_PROXY_KEY names the proxy by its key, for an API key that may use
				tokens but cannot read proxies.`,
			example: `tokenvault proxy run Gateway --method POST --path /charges --data '{"card": "{{ tok-1 }}"}' --tenant Acme --yes`,
			setup:   flagged((*proxyFlags).flags, runProxy),
		},
		{
			name: "proxy delete", args: "ID|NAME", min: 1, max: 1, reach: bothWays, asks: true, summary: "delete a proxy",
			example: "tokenvault proxy delete Gateway --tenant Acme --yes",
			act:     inTenant(proxies.remove),
		},
	}
}

var proxies = kind[vault.Proxy, vault.ProxyParams]{
	name: manifest.Proxy, columns: proxyColumns, blank: vault.Proxy{RequireAuth: true},
	of:   func(x *vault.Proxy) (uuid.UUID, string) { return x.ID, x.Name },
	ends: " Its key stops working at once.",
	all: func(ctx context.Context, api vault.API, name string) iter.Seq2[*vault.Proxy, error] {
		return api.AllProxies(ctx, vault.ListParams{Name: name})
	},
	get: vault.API.GetProxy, apply: vault.API.ApplyProxy, delete: vault.API.DeleteProxy,
}

var proxyColumns = []column[*vault.Proxy]{
	{"ID", func(x *vault.Proxy) string { return x.ID.String() }},
	{"NAME", func(x *vault.Proxy) string { return nameText(x.Name, x.Unreadable) }},
	{"DESTINATION", func(x *vault.Proxy) string { return x.DestinationURL }},
	{"AUTH", func(x *vault.Proxy) string { return strconv.FormatBool(x.RequireAuth) }},
	{"CREATED", func(x *vault.Proxy) string { return shell.TimeText(x.CreatedAt) }},
	{"MODIFIED", func(x *vault.Proxy) string { return shell.TimeText(x.ModifiedAt) }},
	{"APPLICATION", func(x *vault.Proxy) string { return idText(x.ApplicationID) }},
	{"KEY", func(x *vault.Proxy) string { return x.Key }},
	{"CONFIGURATION", func(x *vault.Proxy) string { return namesText(x.Configuration) }},
	{"REQUEST TRANSFORM", func(x *vault.Proxy) string { return codeText(codeOf(x.RequestTransform)) }},
	{"RESPONSE TRANSFORM", func(x *vault.Proxy) string { return codeText(codeOf(x.ResponseTransform)) }},
}

// namesText returns the names of a configuration. Its values are secrets.
func namesText(m map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ",")
}

func idText(id uuid.UUID) string {
	if id == (uuid.UUID{}) {
		return ""
	}
	return id.String()
}

// codeText returns code for the lines below its label.
func codeText(code string) string {
	if code == "" {
		return ""
	}
	return "\n" + strings.TrimRight(code, "\n")
}

// planProxy compares a manifest with the existing proxy of the same name.
func planProxy(c *call, api vault.API, m *manifest.Manifest) (*planned, error) {
	if m.DescribesApplication() {
		return nil, errNoApplication
	}
	if m.Code != "" || m.CodeFile != "" {
		return nil, errors.New("a proxy has code in request_transform and response_transform alone; is it a reactor?")
	}
	want, err := proxyParams(c, api, m)
	if err != nil {
		return nil, err
	}
	return proxies.plan(c, api, m, want, func(d *manifest.Changes, now *vault.Proxy) {
		d.Text("destination_url", now.DestinationURL, want.DestinationURL)
		d.Text("require_auth", strconv.FormatBool(now.RequireAuth), strconv.FormatBool(*want.RequireAuth))
		d.Text("application", idText(now.ApplicationID), idText(want.ApplicationID))
		d.Configuration(now.Configuration, want.Configuration)
		d.Code("request_transform", codeOf(now.RequestTransform), codeOf(want.RequestTransform))
		d.Code("response_transform", codeOf(now.ResponseTransform), codeOf(want.ResponseTransform))
	})
}

func proxyParams(c *call, api vault.API, m *manifest.Manifest) (vault.ProxyParams, error) {
	p := vault.ProxyParams{Name: m.Name, DestinationURL: m.DestinationURL, RequireAuth: m.RequireAuth}
	if p.DestinationURL == "" {
		return p, errors.New("a proxy needs a destination_url")
	}
	if p.RequireAuth == nil {
		p.RequireAuth = new(true)
	}
	if m.RequestTransform != nil {
		p.RequestTransform = &vault.ProxyTransform{Code: m.RequestTransform.Code}
	}
	if m.ResponseTransform != nil {
		p.ResponseTransform = &vault.ProxyTransform{Code: m.ResponseTransform.Code}
	}
	var err error
	if p.Configuration, err = m.Configuration(c.getenv); err != nil {
		return p, err
	}
	p.ApplicationID, err = applicationID(c, api, m.Application)
	return p, err
}

func codeOf(t *vault.ProxyTransform) string {
	if t == nil {
		return ""
	}
	return t.Code
}

// proxyFlags are the flags that describe a request.
type proxyFlags struct {
	method, path, query, data string
	headers                   texts
}

func (p *proxyFlags) flags(f *flag.FlagSet) {
	f.StringVar(&p.method, "method", http.MethodGet, "HTTP `method`")
	f.StringVar(&p.path, "path", "", "`path` to append to the destination's path")
	f.StringVar(&p.query, "query", "", "`query` to append to the destination's query, without the question mark")
	f.StringVar(&p.data, "data", "", "`body`, or - for standard input")
	f.Func("header", "`Name: value`; repeatable", p.headers.set)
}

func runProxy(c *call, p *proxyFlags) error {
	request := vault.ProxyCall{Method: p.method, Path: p.path, Query: p.query, Header: http.Header{}}
	for _, line := range p.headers {
		name, text, ok := strings.Cut(line, ":")
		if !ok {
			return shell.Usagef("--header takes a name and a value with a colon in between")
		}
		request.Header.Add(strings.TrimSpace(name), strings.TrimSpace(text))
	}
	if p.data != "" {
		body, err := c.textOrInput(p.data)
		if err != nil {
			return err
		}
		request.Body, request.ContentLength = strings.NewReader(body), int64(len(body))
		if request.Header.Get("Content-Type") == "" {
			request.Header.Set("Content-Type", "application/json")
		}
	}
	if err := c.confirmClear(); err != nil {
		return err
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	if request.Key, err = c.proxyKey(o.api); err != nil {
		return err
	}
	return c.send(o.api, request)
}

// proxyKeyVariable is the environment variable with the key of a proxy. There
// is no flag for it, because process lists show arguments.
const proxyKeyVariable = "TOKENVAULT_PROXY_KEY"

// proxyKey returns the key of the proxy in the argument or the environment.
func (c *call) proxyKey(api vault.API) (string, error) {
	if len(c.args) == 0 {
		if key := c.getenv(proxyKeyVariable); key != "" {
			return key, nil
		}
		return "", shell.Usagef("no proxy is given: use its id or name, or its key in the environment variable %s", proxyKeyVariable)
	}
	x, err := proxies.find(c, api, c.args[0])
	if err != nil {
		return "", err
	}
	return x.Key, nil
}

// send sends a request and prints the response.
func (c *call) send(api vault.API, request vault.ProxyCall) error {
	answer, err := api.InvokeProxy(c.ctx, request)
	if err != nil {
		return err
	}
	_, err = io.Copy(c.Out, answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	c.inform("%d %s", answer.Status, http.StatusText(answer.Status))
	if answer.Status >= http.StatusBadRequest {
		return errReported
	}
	return nil
}
