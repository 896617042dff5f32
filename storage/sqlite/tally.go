package sqlite

import "github.com/seed-72ea4aab/vault/storage"

// tally collects by how much a transaction changes the numbers of rows, so that
// each counter is written once.
type tally struct {
	changes []countChange
	sums    map[counter]int
}

// counter names a row of token_counts, or of log_counts when it is one of logs.
type counter struct {
	tenant storage.ID
	set    storage.Hash
	kind   string
	logs   bool
}

type countChange struct {
	counter counter
	by      int
}

func (t *tally) reset() { t.changes = t.changes[:0] }

func (t *tally) addToken(tenant storage.ID, set storage.Hash, kind string, by int) {
	t.changes = append(t.changes, countChange{counter{tenant: tenant, set: set, kind: kind}, by})
}

func (t *tally) addLog(tenant storage.ID, kind string) {
	t.changes = append(t.changes, countChange{counter{tenant: tenant, kind: kind, logs: true}, 1})
}

// mark and rollBack forget the changes of a call that failed.
func (t *tally) mark() int         { return len(t.changes) }
func (t *tally) rollBack(mark int) { t.changes = t.changes[:mark] }

// each calls change for every counter that changes, once.
func (t *tally) each(change func(counter, int) error) error {
	if t.sums == nil {
		t.sums = map[counter]int{}
	}
	clear(t.sums)
	for _, c := range t.changes {
		t.sums[c.counter] += c.by
	}
	for counter, by := range t.sums {
		if by == 0 {
			continue
		}
		if err := change(counter, by); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeCounts() error {
	return w.counts.each(func(c counter, by int) error {
		var err error
		if c.logs {
			_, err = w.exec(stmtCountLogs, c.tenant[:], c.kind, by)
		} else {
			_, err = w.exec(stmtCountTokens, c.tenant[:], c.set[:], c.kind, by)
		}
		return err
	})
}
