package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/internal/terminal"
	"github.com/seed-72ea4aab/vault/storage"
)

func doctorCommand() *command {
	return &command{
		name: "doctor", reach: bothWays, summary: "find problems, and suggest how to fix them",
		about: `Checks the database and its settings, the schema, the clock, the master key or
			the API key, and whether this machine reaches the internet, which proxies,
			callbacks and code need. Exits with 0 if there are only warnings, and with 1 if
			something does not work.`,
		example: "tokenvault doctor --db vault.db --key-file vault.key\ntokenvault doctor --url https://vault.example.com",
		setup: func(f *flag.FlagSet) action {
			egress := f.String("egress-url", "https://example.com/", "`URL` to try to reach; empty for none")
			anchor := f.String("anchor", "", "`file` of an anchor to compare the evidence with")
			return func(c *call) error {
				c.anchor = *anchor
				return doctor(c, *egress)
			}
		},
	}
}

// verdict is the result of a check.
type verdict string

const (
	fine    verdict = "ok"
	warning verdict = "warning"
	problem verdict = "problem"
)

// finding is the result of one check, with advice if something is wrong.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Fix     string  `json:"fix,omitempty"`
}

// examination collects findings.
type examination struct {
	c        *call
	findings []finding
}

func (e *examination) ok(check, format string, args ...any) {
	e.add(finding{check, fine, fmt.Sprintf(format, args...), ""})
}

func (e *examination) warn(check, fix, format string, args ...any) {
	e.add(finding{check, warning, fmt.Sprintf(format, args...), fix})
}

func (e *examination) fail(check, fix, format string, args ...any) {
	e.add(finding{check, problem, fmt.Sprintf(format, args...), fix})
}

func (e *examination) add(f finding) { e.findings = append(e.findings, f) }

func doctor(c *call, egress string) error {
	way, err := c.way()
	if err != nil {
		return err
	}
	e := &examination{c: c}
	switch {
	case way == overHTTP:
		if err := e.server(); err != nil {
			return err
		}
	case serve.IsPostgres(c.target.Path):
		e.postgres(c.ctx)
		e.vault()
	default:
		e.sqlite(c.ctx)
		e.vault()
	}
	if way == inProcess && egress != "" {
		e.egress(c.ctx, egress)
	}
	return e.report()
}

// report prints the findings.
func (e *examination) report() error {
	bad := false
	p := terminal.NewPalette(e.c.Out, e.c.getenv)
	for _, f := range e.findings {
		bad = bad || f.Verdict == problem
		if e.c.json {
			if err := writeJSON(e.c.Out, f); err != nil {
				return err
			}
			continue
		}
		mark := map[verdict]string{fine: p.Good("ok      "), warning: p.Warn("warning "), problem: p.Bad("problem ")}[f.Verdict]
		fmt.Fprintf(e.c.Out, "%s  %-9s %s\n", mark, f.Check, printable(f.Detail))
		if f.Fix != "" {
			fmt.Fprintf(e.c.Out, "%20s%s\n", "", f.Fix)
		}
	}
	if bad {
		return errReported
	}
	return nil
}

// vault opens the vault, which checks the schema and the key.
func (e *examination) vault() {
	if !e.schema() {
		return
	}
	e.keyFile()
	e.c.looks = true
	if _, err := e.c.openVault(); err != nil {
		fix := "Give the --key-file or " + masterKeyVariable + " that the database was created with."
		e.fail("key", fix, "the vault cannot be opened: %s", firstLine(err))
		return
	}
	tenants := 0
	for t, err := range eachTenant(e.c.ctx, e.c.opened.vault) {
		if err != nil {
			e.fail("database", "Look at the error.", "tenants cannot be listed: %s", firstLine(err))
			return
		}
		tenants++
		switch {
		case t.Key == nil:
		case t.Key.State == vault.TenantKeyOK:
			e.ok("key", "the key of tenant %s is available", t.ID)
		default:
			e.warn("key", "Ask the holder of "+t.Key.URI+".", "the key of tenant %s is %s", t.ID, t.Key.State)
		}
	}
	e.ok("key", "the master key opens the database, which has %s", counted(tenants, "tenant"))
	e.evidence()
	e.sinks()
}

// lateSink is how long an entry may wait for a sink before doctor warns. A working
// sink is only seconds behind.
const lateSink = 5 * time.Minute

// sinks checks how far behind the log sinks are.
func (e *examination) sinks() {
	all, err := e.c.opened.vault.ListSinks(e.c.ctx)
	if err != nil {
		e.fail("sinks", "Look at the error.", "cannot be read: %s", firstLine(err))
		return
	}
	for _, s := range all {
		name, last := printable(s.Name), "never"
		if !s.LastSuccess.IsZero() {
			last = "at " + timeText(s.LastSuccess)
		}
		switch late := time.Since(s.Oldest); {
		case s.Behind > 0 && late > lateSink:
			e.warn("sinks", "Look at the destination and the log of the server. Skip the entries of a removed sink with tokenvault sink skip.",
				"%s is %s behind with %s; it last took entries %s", name, late.Round(time.Second), entriesText(s.Behind), last)
		case s.Refused > 0:
			e.warn("sinks", "Look for the entries in the log of the server.", "%s has refused %s", name, entriesText(int(s.Refused)))
		default:
			e.ok("sinks", "%s is up to date; it last took entries %s", name, last)
		}
	}
}

func entriesText(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return strconv.Itoa(n) + " entries"
}

// oldNote is the age of the newest note from which on doctor assumes that no
// server signs notes.
const oldNote = time.Hour

// evidence checks the evidence of the log, if the database has any.
func (e *examination) evidence() {
	if e.c.evidence == nil {
		e.ok("evidence", "is off: nothing shows changes of the audit log in the database")
		return
	}
	s, err := e.c.opened.vault.EvidenceStatus()
	switch {
	case err != nil:
		e.fail("evidence", "Look at the error.", "cannot be read: %s", firstLine(err))
	case s.Suspended != "":
		e.fail("evidence", "Find out why. After a restore, run tokenvault log accept-restore.", "nothing is signed: %s", s.Suspended)
	case s.LacksErasures && len(s.Alarms) == 0:
		e.warn("evidence", "Run tokenvault erase --again with what was kept of the audit log.", "the restored database may lack erasures, deletions and regenerated keys made since its backup")
	case s.Wrong() != "":
		e.fail("evidence", "Run tokenvault log verify.", "%s", s.Wrong())
	case s.SignedAt.IsZero():
		e.warn("evidence", "Start a server, or run tokenvault log checkpoint.", "no note was signed yet")
	case time.Since(s.SignedAt) > oldNote:
		e.warn("evidence", "Start a server, or run tokenvault log checkpoint.", "the newest note was signed at %s", timeText(s.SignedAt))
	default:
		e.ok("evidence", "the newest note was signed at %s", timeText(s.SignedAt))
	}
}

// schema compares the migrations, and reports whether the vault can be opened.
func (e *examination) schema() bool {
	applied, err := e.c.appliedMigrations(e.c.ctx)
	if errors.Is(err, storage.ErrFormerSchema) {
		e.fail("schema", "Use a new database, and move the data with the version that wrote the tables.", "%s", firstLine(err))
		return false
	}
	if err != nil {
		e.fail("schema", "Give the role the right to read the vault's tables.", "the migrations cannot be read: %s", firstLine(err))
		return false
	}
	pending := 0
	for _, m := range e.c.migrations() {
		if !applied[m.Version] {
			pending++
		}
	}
	switch {
	case len(applied) == 0:
		e.fail("schema", "Run tokenvault migrate up.", "the database has no vault")
	case pending > 0:
		e.fail("schema", "Run tokenvault migrate up.", "%d of %d migrations have not run", pending, len(e.c.migrations()))
	default:
		e.ok("schema", "up to date")
	}
	return len(applied) > 0 && pending == 0
}

// maxSkew is how far clocks may differ before jobs and expiry suffer.
const maxSkew = time.Second

// clock compares this machine's clock with another clock, which was read between
// two moments.
func (e *examination) clock(other time.Time, before, after time.Time, precision time.Duration) {
	middle := before.Add(after.Sub(before) / 2)
	skew := other.Sub(middle)
	if skew < 0 {
		skew = -skew
	}
	if skew <= maxSkew+precision+after.Sub(before)/2 {
		e.ok("clock", "agrees with the other side within %s", maxSkew+precision)
		return
	}
	e.warn("clock", "Let NTP set the clocks of all machines.", "differs from the other side by %s", skew.Round(100*time.Millisecond))
}

// egressTimeout bounds a request to the internet.
const egressTimeout = 5 * time.Second

// egress tries to reach a URL like proxies, callbacks and code would.
func (e *examination) egress(ctx context.Context, url string) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		if e.c.getenv(name) != "" {
			e.warn("egress", "Let the server reach the internet directly.", "%s is set, and the server does not use it", name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, egressTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		e.warn("egress", "Give an https URL in --egress-url.", "the URL to try cannot be read")
		return
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		e.warn("egress", "Open the firewall for https, or ignore this if there are no proxies, callbacks or fetch.",
			"%s cannot be reached, so proxies, callbacks and fetch may fail", req.URL.Host)
		return
	}
	_ = res.Body.Close()
	e.ok("egress", "%s can be reached", req.URL.Host)
}

// server checks a vault over HTTP.
func (e *examination) server() error {
	c := e.c
	o, err := c.open()
	if err != nil || !e.probe("/readyz") {
		return err
	}
	app, err := o.client.OwnApplication(c.ctx)
	if err != nil {
		e.fail("key", "Give a key that works in "+apiKeyVariable+".", "the API key is not accepted: %s", firstLine(err))
		return nil
	}
	e.ok("key", "the API key belongs to a %s application", app.Type)
	if !app.ExpiresAt.IsZero() {
		e.warn("key", "Create a new application before then.", "the API key expires at %s", timeText(app.ExpiresAt))
	}
	return nil
}

// maxHealth bounds how much of a server's response is read.
const maxHealth = 64 << 10

// probe queries the health and the time of a server. It reports whether the server
// responds.
func (e *examination) probe(path string) bool {
	req, err := http.NewRequestWithContext(e.c.ctx, http.MethodGet, strings.TrimRight(e.c.target.url, "/")+path, nil)
	if err != nil {
		e.fail("server", "Give the URL of a vault in --url.", "the URL cannot be read")
		return false
	}
	before := time.Now()
	res, err := http.DefaultClient.Do(req)
	after := time.Now()
	if err != nil {
		e.fail("server", "Start the server, or correct --url.", "%s does not respond", req.URL.Host)
		return false
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		e.fail("server", "Look at the server's log, and at its database.", "%s responds with %d", path, res.StatusCode)
		return true
	}
	e.ok("server", "is ready: its database responds")
	var is struct{ Evidence string }
	if json.NewDecoder(io.LimitReader(res.Body, maxHealth)).Decode(&is) == nil && is.Evidence != "" {
		e.fail("evidence", "Run tokenvault log verify at the database.", "%s", is.Evidence)
	}
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		e.clock(date.Add(time.Second/2), before, after, time.Second/2)
	}
	if res.TLS != nil && len(res.TLS.PeerCertificates) > 0 {
		e.certificate(res.TLS.PeerCertificates[0].NotAfter, after)
	}
	return true
}

// certificate warns about a certificate that expires soon.
func (e *examination) certificate(end, now time.Time) {
	const soon = 14 * 24 * time.Hour
	if end.Sub(now) < soon {
		e.warn("transport", "Renew the certificate.", "the server's certificate expires at %s", timeText(end))
		return
	}
	e.ok("transport", "the server's certificate is valid until %s", timeText(end))
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(fault.Text(err), "\n")
	return line
}
