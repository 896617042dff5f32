package console

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// export streams the entries that match the form, including reads made in the
// console.
func (q *request) export(c *vault.Owner, t *vault.Tenant, name, contentType string, write func(io.Writer, *vault.LogEntry) error) error {
	_, p, bad := q.logFilter()
	if len(bad) > 0 {
		return q.log(c, t)
	}
	ctrl := http.NewResponseController(q.w)
	q.w.Header().Set("Content-Type", contentType)
	q.w.Header().Set("Content-Disposition", `attachment; filename="log-`+t.ID.String()+name+`"`)
	n := 0
	for entry, err := range c.AllLogs(q.r.Context(), p) {
		if err != nil {
			q.opts.Logger.ErrorContext(q.r.Context(), "console: an export failed", "error", err)
			panic(http.ErrAbortHandler) // so that the browser does not treat the file as complete
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

// logLines exports the log as JSON lines.
func (q *request) logLines(c *vault.Owner, t *vault.Tenant) error {
	return q.export(c, t, ".jsonl", "application/x-ndjson", func(w io.Writer, e *vault.LogEntry) error { return json.NewEncoder(w).Encode(e) })
}

// logCSV exports the log as CSV.
func (q *request) logCSV(c *vault.Owner, t *vault.Tenant) error {
	first := true
	return q.export(c, t, ".csv", "text/csv; charset=utf-8", func(w io.Writer, e *vault.LogEntry) error {
		table := csv.NewWriter(w)
		if first {
			_ = table.Write([]string{"created_at", "operation", "entity_type", "entity_id", "actor_type", "actor_id", "actor_name", "message", "id", "origin"})
			first = false
		}
		actor := ""
		if e.ActorID != (uuid.UUID{}) {
			actor = e.ActorID.String()
		}
		_ = table.Write([]string{machine(e.CreatedAt), string(e.Operation), e.EntityType, cell(e.EntityID), string(e.ActorType),
			actor, cell(e.ActorName), e.Message, e.ID.String(), cell(e.Origin)})
		table.Flush()
		return table.Error()
	})
}

// cell keeps a spreadsheet from evaluating text as a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
