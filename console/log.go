package console

import (
	"bytes"
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// logBody is the page of the audit log.
type logBody struct {
	Filter      logFilter
	Rows        []logRow
	Older       template.URL // query of the next page; empty on the last page
	First       bool
	EntityTypes []vault.EntityType
	Operations  []vault.LogOperation
	Problems    problems
}

// logRow is an entry in a table.
type logRow struct {
	*vault.LogEntry
	Entity, Actor ref
	Console       bool // made in the console
}

// Where returns the origin of a call, without the prefix of the console.
func (r logRow) Where() string {
	if r.Console {
		return strings.TrimSpace(strings.TrimPrefix(r.Origin, fromConsole))
	}
	return r.Origin
}

// logFilter is the filter form, as the user filled it in: the parameters of the URL
// that are not empty.
type logFilter struct{ url.Values }

// Query returns the filter as the query of a URL.
func (f logFilter) Query() template.URL { return query(f.Values) }

// Console reports whether reads made in the console are included.
func (f logFilter) Console() bool { return f.Has("console") }

// Any reports whether the filter excludes entries.
func (f logFilter) Any() bool { return len(f.Values) > 1 || len(f.Values) == 1 && !f.Console() }

// Switched returns the query of the same filter with the opposite choice about
// reads made in the console.
func (f logFilter) Switched() template.URL {
	other := maps.Clone(f.Values)
	if other.Del("console"); !f.Console() {
		other.Set("console", "show")
	}
	return query(other)
}

var operations = []vault.LogOperation{"create", "read", "update", "delete", "use", "authorize", "expire", "react", "import", "key"}

// timeProblem explains how to write a time.
const timeProblem = "must be a date and time such as 2026-01-31T09:30"

// logFilter reads the form. It returns the form, the filter for the vault, and the
// problems of the form.
func (q *request) logFilter() (f logFilter, p vault.ListLogsParams, bad problems) {
	asked := q.r.URL.Query()
	f = logFilter{url.Values{}}
	for _, name := range []string{"actor", "entity_type", "entity_id", "operation", "from", "to", "console"} {
		if text := strings.TrimSpace(asked.Get(name)); text != "" {
			f.Set(name, text)
		}
	}
	p = vault.ListLogsParams{EntityType: f.Get("entity_type"), EntityID: f.Get("entity_id"), Operation: vault.LogOperation(f.Get("operation"))}
	if actor := f.Get("actor"); actor != "" {
		id, err := uuid.Parse(actor)
		if err != nil {
			id = uuid.NewSHA1(q.id("tenant"), []byte(actor)) // like Owner.AsUser
		}
		p.ActorID = id
	}
	bad = problems{}
	for name, at := range map[string]*time.Time{"from": &p.StartDate, "to": &p.EndDate} {
		var ok bool
		if *at, ok = readTime(f.Get(name)); !ok {
			bad[name] = []string{timeProblem}
		}
		if f.Del(name); !at.IsZero() {
			f.Set(name, inputTime(*at))
		}
	}
	return f, p, bad
}

func readTime(text string) (time.Time, bool) {
	if text == "" {
		return time.Time{}, true
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// log shows a page of the log.
func (q *request) log(c *vault.Owner, t *vault.Tenant) error {
	f, p, bad := q.logFilter()
	b := &logBody{Filter: f, Operations: operations, Problems: bad, First: q.r.URL.Query().Get("before") == ""}
	var err error
	if b.EntityTypes, err = c.ListEntityTypes(q.r.Context()); err != nil {
		return err
	}
	if len(bad) > 0 {
		return q.show(http.StatusBadRequest, "log", q.view("log", "Log", t, b))
	}
	before, _ := uuid.Parse(q.r.URL.Query().Get("before")) // anything else is the first page
	entries, older, err := q.readLog(c, p, f.Console(), before)
	if err != nil {
		return err
	}
	b.Rows = q.logRows(c, q.in(), entries)
	if older != (uuid.UUID{}) {
		next := maps.Clone(f.Values)
		next.Set("before", older.String())
		b.Older = query(next)
	}
	return q.show(http.StatusOK, "log", q.view("log", "Log", t, b))
}

// maxScan bounds the number of entries that a page of the log reads. Most of them
// may be reads made in the console.
const maxScan = 5000

// readLog returns a page of entries, newest first. The page starts after the entry
// with the id before, or at the newest entry if before is zero. The result older
// is the value of before for the next page, and zero on the last page.
func (q *request) readLog(c *vault.Owner, p vault.ListLogsParams, all bool, before uuid.UUID) (entries []vault.LogEntry, older uuid.UUID, err error) {
	if before != (uuid.UUID{}) {
		// The ids of entries start with a timestamp in milliseconds.
		end := time.Unix(before.Time().UnixTime()).Truncate(time.Millisecond).Add(time.Millisecond)
		if p.EndDate.IsZero() || end.Before(p.EndDate) {
			p.EndDate = end
		}
	}
	scanned := 0
	for e, err := range c.AllLogs(q.r.Context(), p) {
		switch {
		case err != nil:
			return nil, uuid.UUID{}, err
		case before != (uuid.UUID{}) && bytes.Compare(e.ID[:], before[:]) >= 0:
			continue
		case len(entries) == listSize, scanned == maxScan:
			return entries, older, nil
		}
		scanned++
		older = e.ID
		if all || !consoleRead(e) {
			entries = append(entries, *e)
		}
	}
	return entries, uuid.UUID{}, nil
}

// logRows returns entries as table rows. in is the path of the tenant's pages.
func (q *request) logRows(c *vault.Owner, in string, entries []vault.LogEntry) []logRow {
	rows := make([]logRow, len(entries))
	for i := range entries {
		e := &entries[i]
		rows[i] = logRow{LogEntry: e, Entity: q.entity(c, in, e), Console: fromTheConsole(e)}
		switch {
		case e.ActorName != "":
			rows[i].Actor = ref{Text: e.ActorName, Full: e.ActorName}
		case e.ActorID != uuid.UUID{}:
			rows[i].Actor = q.namedRef(c, in, "application", e.ActorID)
		}
	}
	return rows
}

// entity refers to the entity of an entry. Deleted entities have no page.
func (q *request) entity(c *vault.Owner, in string, e *vault.LogEntry) ref {
	gone := e.Operation == vault.OperationDelete || e.Operation == vault.OperationExpire
	id := idRef(e.EntityID, "")
	switch e.EntityType {
	case "tenant":
		id.Href = strings.TrimSuffix(in, "/")
	case "application", "reactor", "proxy":
		if known, err := uuid.Parse(e.EntityID); err == nil && !gone {
			return q.namedRef(c, in, e.EntityType, known)
		}
	case "session":
		id.Href = in + "sessions"
	case "erasure", "log":
	default:
		id.Href = in + "tokens/" + pathEscape(e.EntityID)
	}
	if gone || e.Operation == vault.OperationImport || named[e.EntityType].path != "" {
		id.Href = ""
	}
	return id
}

// notTokens are the entity types of the log that are no types of tokens.
var notTokens = map[string]bool{"application": true, "erasure": true, "log": true, "proxy": true, "reactor": true, "session": true, "tenant": true}

// failure matches the message about a failed run.
var failure = regexp.MustCompile(`^(?:Reactor|Proxy) failed(?: in line (\d+))?$`)

// Failed reports whether the entry is about a failure.
func (r logRow) Failed() bool {
	return failure.MatchString(r.Message) || r.Message == "Reactor callback abandoned" || r.Operation == "denied"
}

// Line returns the line of the error, or the empty string if it is unknown.
func (r logRow) Line() string {
	if parts := failure.FindStringSubmatch(r.Message); parts != nil {
		return parts[1]
	}
	return ""
}

// matches reports whether an entry matches the filter.
func matches(p *vault.ListLogsParams, e *vault.LogEntry) bool {
	return (p.EntityType == "" || p.EntityType == e.EntityType) && (p.EntityID == "" || p.EntityID == e.EntityID) &&
		(p.Operation == "" || p.Operation == e.Operation) && (p.ActorID == uuid.UUID{} || p.ActorID == e.ActorID)
}

// followLog sends new entries of a tenant.
func (h *handler) followLog(ctx context.Context, tenant uuid.UUID, send func([]vault.LogEntry)) {
	for batch, err := range h.vault.Tenant(tenant).From(fromConsole).FollowLogs(ctx, "") {
		if err != nil {
			return
		}
		send(batch.Data)
	}
}

// logEvents streams new entries. The entries of a tenant are read once for all
// pages that follow its log.
func (q *request) logEvents(c *vault.Owner, _ *vault.Tenant) error {
	f, p, _ := q.logFilter()
	asked := func(e *vault.LogEntry) bool { return matches(&p, e) && (f.Console() || !consoleRead(e)) }
	return follow(q, &q.logs, c.TenantID(), "entries", func(batch []vault.LogEntry) []byte { return q.rows(c, batch, asked) })
}

// rows renders entries, newest first. Links are relative to the page of the log,
// which is one level above the stream.
func (q *request) rows(c *vault.Owner, batch []vault.LogEntry, asked func(*vault.LogEntry) bool) []byte {
	var shown []vault.LogEntry
	for _, e := range slices.Backward(batch) {
		if asked(&e) {
			shown = append(shown, e)
		}
	}
	in := strings.TrimPrefix(q.root(), "../") + q.tenantPath() + "/"
	var html bytes.Buffer
	for _, row := range q.logRows(c, in, shown) {
		_ = pages["log"].ExecuteTemplate(&html, "entry", row) // writes to memory
	}
	return html.Bytes()
}
