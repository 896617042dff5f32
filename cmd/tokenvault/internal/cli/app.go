package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/manifest"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
)

func appCommands() []*command {
	return []*command{
		{
			name: "app create", reach: bothWays, summary: "create an application, and print its API key",
			about: `The key is printed once and not stored. A public application may hold
				token:create and token:update, a private application all permissions on tokens,
				and a management application all other permissions. --rules names a file with a
				JSON array of access rules, and --identities one with a JSON array of the
				workloads that may act as the application with a JWT, which needs --url, because
				only a server knows its issuers: see docs/identity.md.`,
			example: "tokenvault app create --name Checkout --type private --permission token:create,token:use --tenant Acme",
			setup:   flagged((*appFlags).flags, createApp),
		},
		{
			name: "app list", reach: bothWays, summary: "list the applications of a tenant, newest first",
			example: "tokenvault app list --tenant Acme",
			act:     inTenant(apps.list),
		},
		{
			name: "app get", args: "ID|NAME", min: 1, max: 1, reach: bothWays, summary: "show an application",
			example: "tokenvault app get Checkout --tenant Acme --json",
			act:     inTenant(apps.show),
		},
		applyCommand("app", manifest.Application, `
			An application has name, type, permissions, rules, identities, expires_at and
			create_key, as in the body of POST /applications. The key of a new application is
			printed once and not stored; with create_key: false it has none. Keys of an
			application that exists stay as they are: see tokenvault app key. Without --url
			identities are refused, because only a server knows its issuers.`,
			"tokenvault app apply -f applications/ --tenant Acme --dry-run\ntokenvault app apply -f applications/checkout.yaml --tenant Acme --yes",
			planApplication),
		{
			name: "app rotate-key", args: "ID|NAME", min: 1, max: 1, reach: bothWays, asks: true,
			summary: "give an application a new API key",
			about: `The old key stops working at once. So do the sessions that it created or
				authorized and the jobs that it queued. The new key is printed once.`,
			example: "tokenvault app rotate-key Checkout --tenant Acme",
			act:     inTenant(rotateAppKey),
		},
		{
			name: "app delete", args: "ID|NAME", min: 1, max: 1, reach: bothWays, asks: true,
			summary: "delete an application and its API key",
			example: "tokenvault app delete Checkout --tenant Acme --yes",
			act:     inTenant(apps.remove),
		},
	}
}

var apps = kind[vault.Application, vault.ApplicationParams]{
	name: "application", columns: appColumns,
	of:   func(a *vault.Application) (uuid.UUID, string) { return a.ID, a.Name },
	ends: " Its key and its sessions stop working at once.",
	all: func(ctx context.Context, api vault.API, name string) iter.Seq2[*vault.Application, error] {
		return api.AllApplications(ctx, vault.ListApplicationsParams{Name: name})
	},
	get: vault.API.GetApplication, apply: vault.API.ApplyApplication, delete: vault.API.DeleteApplication,
}

var appColumns = []column[*vault.Application]{
	{"ID", func(a *vault.Application) string { return a.ID.String() }},
	{"NAME", func(a *vault.Application) string { return nameText(a.Name, a.Unreadable) }},
	{"TYPE", func(a *vault.Application) string { return string(a.Type) }},
	{"PERMISSIONS", func(a *vault.Application) string { return joined(a.Permissions) }},
	{"CREATED", func(a *vault.Application) string { return shell.TimeText(a.CreatedAt) }},
	{"EXPIRES", func(a *vault.Application) string { return shell.TimeText(a.ExpiresAt) }},
	{"RULES", func(a *vault.Application) string { return rulesText(a.Rules) }},
	{"IDENTITIES", func(a *vault.Application) string { return identitiesText(a.Identities) }},
	{"KEY", func(a *vault.Application) string { return a.Key }},
}

func joined(permissions []vault.Permission) string {
	texts := make([]string, len(permissions))
	for i, p := range permissions {
		texts[i] = string(p)
	}
	return strings.Join(texts, ",")
}

// rulesText returns one line for each access rule.
func rulesText(rules []vault.AccessRule) string {
	var b strings.Builder
	for _, r := range rules {
		where := r.Container
		for _, cond := range r.Conditions {
			where += fmt.Sprintf("%s %s %s ", cond.Attribute, cond.Operator, cond.Value)
		}
		line := fmt.Sprintf("%d  %s  %s  %s", r.Priority, r.Transform, joined(r.Permissions), strings.TrimSpace(where))
		if r.Destinations != nil {
			line += "  only to " + strings.Join(r.Destinations, ", ")
		}
		b.WriteString(line + "\n")
	}
	if len(rules) == 0 {
		return ""
	}
	return "\n" + b.String()
}

// identitiesText returns one line for each identity.
func identitiesText(identities []vault.Identity) string {
	var b strings.Builder
	for _, id := range identities {
		claims, _ := json.Marshal(id.Claims) // strings, numbers and booleans
		fmt.Fprintf(&b, "%s  %s  %s\n", id.Issuer, id.Audience, claims)
	}
	if len(identities) == 0 {
		return ""
	}
	return "\n" + b.String()
}

// appFlags are the flags that describe an application.
type appFlags struct {
	name, typ, rules, identities, expires string
	permissions                           serve.List
	noKey                                 bool
}

func (p *appFlags) flags(f *flag.FlagSet) {
	f.StringVar(&p.name, "name", "", "`name` of the application")
	f.StringVar(&p.typ, "type", "", "`type`: public, private or management")
	f.Func("permission", "`permissions`, separated by commas", p.permissions.Set)
	f.StringVar(&p.rules, "rules", "", "`file` with access rules as a JSON array")
	f.StringVar(&p.identities, "identities", "", "`file` with identities of workloads as a JSON array")
	f.BoolVar(&p.noKey, "no-key", false, "create no API key")
	f.StringVar(&p.expires, "expires-at", "", "`time` at which the application stops working, such as 2030-01-31T00:00:00Z, or a duration from now, such as 24h")
}

func (p *appFlags) params(now time.Time) (vault.ApplicationParams, error) {
	app := vault.ApplicationParams{Name: p.name, Type: vault.ApplicationType(p.typ)}
	if p.name == "" || p.typ == "" {
		return app, shell.Usagef("--name and --type are required")
	}
	for _, word := range p.permissions {
		app.Permissions = append(app.Permissions, vault.Permission(word))
	}
	var err error
	if app.ExpiresAt, err = shell.ParseTime("expires-at", p.expires, now, 1); err != nil {
		return app, err
	}
	if p.noKey {
		app.CreateKey = new(false)
	}
	if err := readArray(p.rules, &app.Rules); err != nil {
		return app, fmt.Errorf("--rules needs a JSON array of access rules: %w", err)
	}
	if err := readArray(p.identities, &app.Identities); err != nil {
		return app, fmt.Errorf("--identities needs a JSON array of identities: %w", err)
	}
	return app, nil
}

// readArray reads a file with a JSON array. It does nothing without a file.
func readArray(file string, to any) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	if err := decodeJSON(text, to); err != nil {
		return shell.Usagef("%v", err)
	}
	return nil
}

func decodeJSON(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()             // the text of a number counts
	d.DisallowUnknownFields() // a misspelled limit would be no limit
	return d.Decode(to)
}

var errNoApplication = errors.New("type, permissions, rules, identities, expires_at and create_key belong to an application; is it one?")

// planApplication compares a manifest with the existing application of the same name.
func planApplication(c *call, api vault.API, m *manifest.Manifest) (*planned, error) {
	want, err := manifestParams(m)
	if err != nil {
		return nil, err
	}
	p, err := apps.plan(c, api, m, want, func(d *manifest.Changes, now *vault.Application) {
		was := now.Params()
		if was.Same(want) {
			return
		}
		d.Text("type", string(was.Type), string(want.Type))
		d.Text("permissions", joined(was.Permissions), joined(want.Permissions))
		d.Text("expires_at", shell.TimeText(was.ExpiresAt), shell.TimeText(want.ExpiresAt))
		d.Code("rules", jsonLines(was.Rules), jsonLines(want.Rules))
		d.Code("identities", jsonLines(was.Identities), jsonLines(want.Identities))
	})
	if err != nil || p.write == nil {
		return p, err
	}
	p.write = func() (uuid.UUID, error) {
		applied, err := api.ApplyApplication(c.ctx, want)
		if err != nil {
			return uuid.UUID{}, err
		}
		if p.Key = applied.Item.Key; p.Key != "" && !c.json {
			fmt.Fprintf(c.Out, "The key of %s, which is not shown again: %s\n", shell.Printable(p.Name), p.Key)
		}
		return applied.Item.ID, nil
	}
	return p, nil
}

// manifestParams returns the parameters of the application in a manifest.
func manifestParams(m *manifest.Manifest) (vault.ApplicationParams, error) {
	p := vault.ApplicationParams{Name: m.Name, Type: vault.ApplicationType(m.Type), CreateKey: m.CreateKey}
	if m.DescribesCode() {
		return p, errors.New("an application has no application, configuration, code, destination_url, require_auth or transforms; is it a reactor or a proxy?")
	}
	if p.Type == "" {
		return p, errors.New("an application needs a type: public, private or management")
	}
	for _, word := range m.Permissions {
		p.Permissions = append(p.Permissions, vault.Permission(word))
	}
	if m.ExpiresAt != "" {
		at, err := time.Parse(time.RFC3339, m.ExpiresAt)
		if err != nil {
			return p, errors.New("expires_at must be a time such as 2030-01-31T00:00:00Z")
		}
		p.ExpiresAt = at
	}
	if err := decodeArray(m.Rules, &p.Rules); err != nil {
		return p, fmt.Errorf("rules: %w", err)
	}
	if err := decodeArray(m.Identities, &p.Identities); err != nil {
		return p, fmt.Errorf("identities: %w", err)
	}
	return p, checkNumbers(m.Identities)
}

// checkNumbers refuses numbers that are not integers. An identity compares the text of
// a number, and YAML does not keep it: 1.0 becomes 1.
func checkNumbers(identities []any) error {
	for _, id := range identities {
		id, _ := id.(map[string]any)
		claims, _ := id["claims"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(claims)) {
			if _, ok := claims[name].(float64); ok {
				return fmt.Errorf("identities: the claim %s must be an integer, because YAML does not keep the text of other numbers; use tokenvault app create --identities, or the REST API", name)
			}
		}
	}
	return nil
}

// decodeArray decodes a part of a manifest as the API decodes it.
func decodeArray(part []any, to any) error {
	if part == nil {
		return nil
	}
	text, err := json.Marshal(part)
	if err != nil {
		return err
	}
	return decodeJSON(text, to)
}

// jsonLines returns a value as JSON in lines, and nothing for an empty list.
func jsonLines[T any](all []T) string {
	if len(all) == 0 {
		return ""
	}
	text, _ := json.MarshalIndent(all, "", "  ") // rules and identities have only texts, numbers and booleans
	return string(text)
}

func createApp(c *call, p *appFlags) error {
	params, err := p.params(time.Now())
	if err != nil {
		return err
	}
	return inTenant(func(c *call, o *opened) error { return c.printKey(o.api.CreateApplication(c.ctx, params)) })(c)
}

// printKey prints an application with its new key.
func (c *call) printKey(app *vault.Application, err error) error {
	err = printOne(c, appColumns)(app, err)
	if err == nil && !c.json {
		c.inform("The key is not shown again.")
	}
	return err
}

// nameText returns a name for a table. A row that the vault cannot read has none.
func nameText(name string, unreadable bool) string {
	if unreadable {
		return "(unreadable)"
	}
	return name
}

func rotateAppKey(c *call, o *opened) error {
	app, err := apps.find(c, o.api, c.args[0])
	if err != nil {
		return err
	}
	if err := c.confirm("The current key of " + shell.Printable(app.Name) + " stops working at once. Continue?"); err != nil {
		return err
	}
	return c.printKey(o.api.RegenerateKey(c.ctx, app.ID))
}

func sessionCommands() []*command {
	return []*command{
		{
			name: "session list", reach: bothWays, summary: "list active sessions, newest first",
			example: "tokenvault session list --tenant Acme",
			act: inTenant(func(c *call, o *opened) error {
				return printAll(c, o.api.AllSessions(c.ctx), sessionColumns)
			}),
		},
		{
			name: "session end", args: "ID", min: 1, max: 1, reach: bothWays, summary: "end a session",
			about:   "Its key stops working within a second on every server.",
			example: "tokenvault session end 01980000-0000-7000-8000-000000000001 --tenant Acme",
			act:     endSession,
		},
	}
}

var sessionColumns = []column[*vault.SessionInfo]{
	{"ID", func(s *vault.SessionInfo) string { return s.ID.String() }},
	{"APPLICATION", func(s *vault.SessionInfo) string { return nameText(s.ApplicationID.String(), s.Unreadable) }},
	{"PERMISSIONS", func(s *vault.SessionInfo) string { return joined(s.Permissions) }},
	{"CREATED", func(s *vault.SessionInfo) string { return shell.TimeText(s.CreatedAt) }},
	{"EXPIRES", func(s *vault.SessionInfo) string { return shell.TimeText(s.ExpiresAt) }},
}

func endSession(c *call) error {
	id, err := uuid.Parse(c.args[0])
	if err != nil {
		return shell.Usagef("the id of a session is a UUID; tokenvault session list shows them")
	}
	return inTenant(func(c *call, o *opened) error {
		return c.say(o.api.DeleteSession(c.ctx, id), map[string]any{"id": id, "ended": true}, "Ended the session %s.", id)
	})(c)
}
