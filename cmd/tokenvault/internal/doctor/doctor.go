// Package doctor finds problems of a vault's database, server and machine, and
// suggests how to fix them.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// Verdict is the result of a check.
type Verdict string

// The results of a check.
const (
	Fine    Verdict = "ok"
	Warning Verdict = "warning"
	Problem Verdict = "problem"
)

// Finding is the result of one check, with advice if something is wrong.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Fix     string  `json:"fix,omitempty"`
}

// Examination collects findings.
type Examination struct {
	Findings []Finding
}

// OK adds that something is as it should be.
func (e *Examination) OK(check, format string, args ...any) {
	e.add(Finding{check, Fine, fmt.Sprintf(format, args...), ""})
}

// Warn adds a warning.
func (e *Examination) Warn(check, fix, format string, args ...any) {
	e.add(Finding{check, Warning, fmt.Sprintf(format, args...), fix})
}

// Fail adds a problem.
func (e *Examination) Fail(check, fix, format string, args ...any) {
	e.add(Finding{check, Problem, fmt.Sprintf(format, args...), fix})
}

func (e *Examination) add(f Finding) { e.Findings = append(e.Findings, f) }

// Print prints the findings, as JSON lines if asked to. It reports whether something
// does not work.
func (e *Examination) Print(w io.Writer, p terminal.Palette, asJSON bool) (bad bool, err error) {
	for _, f := range e.Findings {
		bad = bad || f.Verdict == Problem
		if asJSON {
			if err := shell.WriteJSON(w, f); err != nil {
				return bad, err
			}
			continue
		}
		mark := map[Verdict]string{Fine: p.Good("ok      "), Warning: p.Warn("warning "), Problem: p.Bad("problem ")}[f.Verdict]
		fmt.Fprintf(w, "%s  %-9s %s\n", mark, f.Check, shell.Printable(f.Detail))
		if f.Fix != "" {
			fmt.Fprintf(w, "%20s%s\n", "", f.Fix)
		}
	}
	return bad, nil
}

// lateSink is how long an entry may wait for a sink before doctor warns. A working
// sink is only seconds behind.
const lateSink = 5 * time.Minute

// Sinks checks how far behind the log sinks are.
func (e *Examination) Sinks(ctx context.Context, v *vault.Vault) {
	all, err := v.ListSinks(ctx)
	if err != nil {
		e.Fail("sinks", "Look at the error.", "cannot be read: %s", shell.FirstLine(err))
		return
	}
	for _, s := range all {
		name, last := shell.Printable(s.Name), "never"
		if !s.LastSuccess.IsZero() {
			last = "at " + shell.TimeText(s.LastSuccess)
		}
		switch late := time.Since(s.Oldest); {
		case s.Behind > 0 && late > lateSink:
			e.Warn("sinks", "Look at the destination and the log of the server. Skip the entries of a removed sink with tokenvault sink skip.",
				"%s is %s behind with %s; it last took entries %s", name, late.Round(time.Second), entriesText(s.Behind), last)
		case s.Refused > 0:
			e.Warn("sinks", "Look for the entries in the log of the server.", "%s has refused %s", name, entriesText(int(s.Refused)))
		default:
			e.OK("sinks", "%s is up to date; it last took entries %s", name, last)
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

// Evidence checks the evidence of the log, if the database has any.
func (e *Examination) Evidence(v *vault.Vault) {
	s, err := v.EvidenceStatus()
	switch {
	case errors.Is(err, vault.ErrNotFound):
		e.OK("evidence", "is off: nothing shows changes of the audit log in the database")
	case err != nil:
		e.Fail("evidence", "Look at the error.", "cannot be read: %s", shell.FirstLine(err))
	case s.Suspended != "":
		e.Fail("evidence", "Find out why. After a restore, run tokenvault log accept-restore.", "nothing is signed: %s", s.Suspended)
	case s.LacksErasures && len(s.Alarms) == 0:
		e.Warn("evidence", "Run tokenvault erase --again with what was kept of the audit log.", "the restored database may lack erasures, deletions and regenerated keys made since its backup")
	case s.Wrong() != "":
		e.Fail("evidence", "Run tokenvault log verify.", "%s", s.Wrong())
	case s.SignedAt.IsZero():
		e.Warn("evidence", "Start a server, or run tokenvault log checkpoint.", "no note was signed yet")
	case time.Since(s.SignedAt) > oldNote:
		e.Warn("evidence", "Start a server, or run tokenvault log checkpoint.", "the newest note was signed at %s", shell.TimeText(s.SignedAt))
	default:
		e.OK("evidence", "the newest note was signed at %s", shell.TimeText(s.SignedAt))
	}
}

// Schema compares the migrations, and reports whether the vault can be opened.
func (e *Examination) Schema(ctx context.Context, d *serve.Database) bool {
	pending, err := d.Pending(ctx)
	if err != nil {
		e.Fail("schema", "Give the role the right to read the vault's tables.", "the migrations cannot be read: %s", shell.FirstLine(err))
		return false
	}
	switch all := len(d.Migrations()); len(pending) {
	case 0:
		e.OK("schema", "up to date")
	case all:
		e.Fail("schema", "Run tokenvault migrate up.", "the database has no vault")
	default:
		e.Fail("schema", "Run tokenvault migrate up.", "%d of %d migrations have not run", len(pending), all)
	}
	return len(pending) == 0
}

// maxSkew is how far clocks may differ before jobs and expiry suffer.
const maxSkew = time.Second

// clock compares this machine's clock with another clock, which was read between
// two moments.
func (e *Examination) clock(other time.Time, before, after time.Time, precision time.Duration) {
	middle := before.Add(after.Sub(before) / 2)
	skew := other.Sub(middle)
	if skew < 0 {
		skew = -skew
	}
	if skew <= maxSkew+precision+after.Sub(before)/2 {
		e.OK("clock", "agrees with the other side within %s", maxSkew+precision)
		return
	}
	e.Warn("clock", "Let NTP set the clocks of all machines.", "differs from the other side by %s", skew.Round(100*time.Millisecond))
}

// egressTimeout bounds a request to the internet.
const egressTimeout = 5 * time.Second

// Egress tries to reach a URL like proxies, callbacks and code would.
func (e *Examination) Egress(ctx context.Context, getenv func(string) string, url string) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		if getenv(name) != "" {
			e.Warn("egress", "Let the server reach the internet directly.", "%s is set, and the server does not use it", name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, egressTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		e.Warn("egress", "Give an https URL in --egress-url.", "the URL to try cannot be read")
		return
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		e.Warn("egress", "Open the firewall for https, or ignore this if there are no proxies, callbacks or fetch.",
			"%s cannot be reached, so proxies, callbacks and fetch may fail", req.URL.Host)
		return
	}
	_ = res.Body.Close()
	e.OK("egress", "%s can be reached", req.URL.Host)
}

// maxHealth bounds how much of a server's response is read.
const maxHealth = 64 << 10

// Probe queries the health and the time of a server. It reports whether the server
// responds.
func (e *Examination) Probe(ctx context.Context, url, path string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+path, nil)
	if err != nil {
		e.Fail("server", "Give the URL of a vault in --url.", "the URL cannot be read")
		return false
	}
	before := time.Now()
	res, err := http.DefaultClient.Do(req)
	after := time.Now()
	if err != nil {
		e.Fail("server", "Start the server, or correct --url.", "%s does not respond", req.URL.Host)
		return false
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		e.Fail("server", "Look at the server's log, and at its database.", "%s responds with %d", path, res.StatusCode)
		return true
	}
	e.OK("server", "is ready: its database responds")
	var is struct{ Evidence string }
	if json.NewDecoder(io.LimitReader(res.Body, maxHealth)).Decode(&is) == nil && is.Evidence != "" {
		e.Fail("evidence", "Run tokenvault log verify at the database.", "%s", is.Evidence)
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
func (e *Examination) certificate(end, now time.Time) {
	const soon = 14 * 24 * time.Hour
	if end.Sub(now) < soon {
		e.Warn("transport", "Renew the certificate.", "the server's certificate expires at %s", shell.TimeText(end))
		return
	}
	e.OK("transport", "the server's certificate is valid until %s", shell.TimeText(end))
}
