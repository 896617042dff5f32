package console

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// logBody is the page of the audit log.
type logBody struct {
	Filter      logFilter
	Entries     []vault.LogEntry
	Pager       pager
	EntityTypes []vault.EntityType
	Operations  []vault.LogOperation
	Problem     string
}

// logFilter is what the form asks for, as it was filled in.
type logFilter struct {
	Actor, EntityType, EntityID, Operation, From, To string
}

// Query is the filter in an address.
func (f logFilter) Query() string {
	v := url.Values{}
	for name, value := range map[string]string{
		"actor": f.Actor, "entity_type": f.EntityType, "entity_id": f.EntityID, "operation": f.Operation, "from": f.From, "to": f.To,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v.Encode()
}

var operations = []vault.LogOperation{"create", "read", "update", "delete", "use", "authorize", "expire", "react"}

// logFilter reads the form, and what it asks the vault for. Times that are none
// are said to be.
func (q *request) logFilter() (f logFilter, p vault.LogFilter, problem string) {
	asked := q.r.URL.Query()
	f = logFilter{Actor: strings.TrimSpace(asked.Get("actor")), EntityType: asked.Get("entity_type"), EntityID: strings.TrimSpace(asked.Get("entity_id")),
		Operation: asked.Get("operation"), From: asked.Get("from"), To: asked.Get("to")}
	p = vault.LogFilter{EntityType: f.EntityType, EntityID: f.EntityID, Operation: vault.LogOperation(f.Operation)}
	if f.Actor != "" {
		id, err := uuid.Parse(f.Actor)
		if err != nil {
			id = uuid.NewSHA1(q.id("tenant"), []byte(f.Actor)) // as Owner.AsUser does
		}
		p.ActorID = id
	}
	var ok, ok2 bool
	p.StartDate, ok = readTime(f.From)
	p.EndDate, ok2 = readTime(f.To)
	if !ok || !ok2 {
		problem = "A time is written as 2026-01-31T09:30, in UTC."
	}
	return f, p, problem
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
func (q *request) log() error {
	c, t, err := q.inTenant()
	if err != nil {
		return err
	}
	f, p, problem := q.logFilter()
	b := &logBody{Filter: f, Operations: operations, Problem: problem}
	if b.EntityTypes, err = c.ListEntityTypes(q.r.Context()); err != nil {
		return err
	}
	status := http.StatusOK
	if problem != "" {
		status = http.StatusBadRequest
	} else {
		list, err := c.ListLogs(q.r.Context(), vault.ListLogsParams{EntityType: p.EntityType, EntityID: p.EntityID, StartDate: p.StartDate, EndDate: p.EndDate,
			Operation: p.Operation, ActorID: p.ActorID, PageParams: q.pageParams()})
		if err != nil {
			return err
		}
		b.Entries, b.Pager = list.Data, q.pager(list.Pagination)
	}
	return q.show(status, "log", q.view("log", "Log", t, b))
}

// matches reports whether an entry is one that the filter asks for.
func matches(p *vault.LogFilter, e *vault.LogEntry) bool {
	return (p.EntityType == "" || p.EntityType == e.EntityType) && (p.EntityID == "" || p.EntityID == e.EntityID) &&
		(p.Operation == "" || p.Operation == e.Operation) && (p.ActorID == uuid.UUID{} || p.ActorID == e.ActorID)
}

// logEvents sends entries as they come. Those of one tenant are read once for all
// pages that follow it.
func (q *request) logEvents() error {
	c, _, err := q.inTenant()
	if err != nil {
		return err
	}
	_, p, _ := q.logFilter()
	batches, leave := q.logs.join(c.TenantID())
	defer leave()
	s, err := q.stream()
	if err != nil {
		return err
	}
	return q.each(s, "entries", q.rendered(&p, batches))
}

// rendered turns batches into rows of HTML, of the entries that a filter asks for.
func (q *request) rendered(p *vault.LogFilter, batches <-chan []vault.LogEntry) <-chan []byte {
	out := make(chan []byte)
	go func() {
		defer close(out)
		for {
			select {
			case <-q.r.Context().Done():
				return
			case batch, ok := <-batches:
				if !ok {
					return
				}
				html := q.rows(p, batch)
				if len(html) == 0 {
					continue
				}
				select {
				case out <- html:
				case <-q.r.Context().Done():
					return
				}
			}
		}
	}()
	return out
}

// rows renders entries, newest first.
func (q *request) rows(p *vault.LogFilter, batch []vault.LogEntry) []byte {
	var html bytes.Buffer
	for i := len(batch) - 1; i >= 0; i-- {
		if matches(p, &batch[i]) {
			_ = pages["log"].ExecuteTemplate(&html, "entry", batch[i]) // writes to memory
		}
	}
	return html.Bytes()
}

// export streams the entries that the form asks for.
func (q *request) export(name, contentType string, write func(io.Writer, *vault.LogEntry) error) error {
	c, t, err := q.inTenant()
	if err != nil {
		return err
	}
	_, p, problem := q.logFilter()
	if problem != "" {
		return q.log()
	}
	ctrl := http.NewResponseController(q.w)
	q.w.Header().Set("Content-Type", contentType)
	q.w.Header().Set("Content-Disposition", `attachment; filename="log-`+t.ID.String()+name+`"`)
	n := 0
	for entry, err := range c.AllLogs(q.r.Context(), p) {
		if err != nil {
			q.opts.Logger.ErrorContext(q.r.Context(), "console: an export failed", "error", err)
			panic(http.ErrAbortHandler) // so that the browser does not take it for complete
		}
		if n++; n%500 == 1 {
			if !q.mayStill() {
				panic(http.ErrAbortHandler)
			}
			_ = ctrl.SetWriteDeadline(time.Now().Add(time.Minute)) // where the server can
		}
		if write(q.w, entry) != nil {
			return errGone
		}
	}
	return nil
}

// logLines exports JSON lines.
func (q *request) logLines() error {
	return q.export(".jsonl", "application/x-ndjson", func(w io.Writer, e *vault.LogEntry) error { return json.NewEncoder(w).Encode(e) })
}

// logCSV exports a table.
func (q *request) logCSV() error {
	first := true
	return q.export(".csv", "text/csv; charset=utf-8", func(w io.Writer, e *vault.LogEntry) error {
		table := csv.NewWriter(w)
		if first {
			_ = table.Write([]string{"created_at", "operation", "entity_type", "entity_id", "actor_type", "actor_id", "actor_name", "message", "id"})
			first = false
		}
		actor := ""
		if e.ActorID != (uuid.UUID{}) {
			actor = e.ActorID.String()
		}
		_ = table.Write([]string{machine(e.CreatedAt), string(e.Operation), e.EntityType, cell(e.EntityID), string(e.ActorType),
			actor, cell(e.ActorName), e.Message, e.ID.String()})
		table.Flush()
		return table.Error()
	})
}

// cell keeps a spreadsheet from taking text for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
