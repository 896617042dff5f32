package sqlite

import "github.com/seed-72ea4aab/vault/storage"

// entry is a log entry that is to be inserted.
type entry struct {
	tenant *storage.ID
	log    *storage.Log
	index  int // in its change
}

// insertLogs has the entries of a change inserted before the transaction is
// committed, together with those of other changes: one statement for several
// rows takes much less time than one for each.
func (w *writer) insertLogs(c *storage.Change) error {
	for i := range c.Logs {
		w.entries = append(w.entries, entry{&c.Tenant, &c.Logs[i], i})
		w.counts.addLog(c.Tenant, &c.Logs[i])
	}
	return nil
}

// entryStatements insert so many entries at once.
var entryStatements = [...]struct {
	id   statementID
	rows int
}{{stmtInsert8Logs, 8}, {stmtInsert4Logs, 4}, {stmtInsert2Logs, 2}, {stmtInsertLog, 1}}

// writeEntries inserts the entries of the changes so far.
func (w *writer) writeEntries() error {
	defer w.forgetEntries()
	left := w.entries
	for _, stmt := range entryStatements {
		for len(left) >= stmt.rows {
			if err := w.insertEntries(stmt.id, left[:stmt.rows]); err != nil {
				return err
			}
			left = left[stmt.rows:]
		}
	}
	return nil
}

// insertEntries runs a statement that inserts several entries, and in case of a
// conflict one after the other, to tell which it is about.
func (w *writer) insertEntries(stmt statementID, entries []entry) error {
	args := w.args[:0]
	for i := range entries {
		e := &entries[i]
		args = append(args, e.tenant[:], e.log.ID[:], e.log.CreatedAt.UnixMicro(), optionalID(&e.log.ActorID),
			e.log.ActorType, e.log.EntityType, e.log.EntityID, e.log.Operation, e.log.Message)
	}
	_, err := w.exec(stmt, args...)
	clear(args)
	w.args = args
	if len(entries) == 1 || !isConstraint(err) {
		return inserted("log entry", entries[0].index, err)
	}
	for i := range entries {
		if err := w.insertEntries(stmtInsertLog, entries[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// forgetEntries lets go of the entries, which are their callers'.
func (w *writer) forgetEntries() {
	clear(w.entries)
	w.entries = w.entries[:0]
}
