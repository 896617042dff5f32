package sqlite

import (
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// countChanges holds the changes of row counts in a transaction, so that each
// counter is written once.
type countChanges struct {
	all []countChange
	at  map[counter]int // the index of the sum of each counter; only sums uses it
}

func newCountChanges() countChanges { return countChanges{at: map[counter]int{}} }

// countChange is a change to a row of token_counts or log_counts.
type countChange struct {
	counter
	by int
}

// counter is the key of a row of token_counts, or of log_counts.
type counter struct {
	tenant storage.ID
	kind   string
	set    storage.Hash // of tokens
	day    int64        // of log entries
	ofLog  bool
}

func (t *countChanges) addToken(tenant storage.ID, set storage.Hash, kind string, by int) {
	t.all = append(t.all, countChange{counter{tenant: tenant, set: set, kind: kind}, by})
}

func (t *countChanges) addLog(tenant storage.ID, l *storage.Log) {
	t.all = append(t.all, countChange{counter{tenant: tenant, kind: l.EntityType, day: sqlstore.LogDay(l.CreatedAt), ofLog: true}, 1})
}

// sums returns one change for each counter. Most transactions have one of a token and
// one of a log entry.
func (t *countChanges) sums() []countChange {
	if len(t.all) < 2 || len(t.all) == 2 && t.all[0].ofLog != t.all[1].ofLog {
		return t.all
	}
	defer clear(t.at)
	n := 0
	for _, c := range t.all {
		if sum, ok := t.at[c.counter]; ok {
			t.all[sum].by += c.by
			continue
		}
		t.at[c.counter] = n
		t.all[n] = c
		n++
	}
	t.all = t.all[:n]
	return t.all
}

// writeCounts writes the counters that the transaction has changed.
func (w *writer) writeCounts() error {
	sums := w.counts.sums()
	for i := range sums {
		c := &sums[i]
		var err error
		switch {
		case c.ofLog:
			_, err = w.exec(stmtCountLogs, c.tenant[:], c.kind, c.day, c.by)
		case c.by != 0:
			_, err = w.exec(stmtCountTokens, c.tenant[:], c.set[:], c.kind, c.by)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
