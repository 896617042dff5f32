package sqlite

import (
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// countChanges holds the changes of row counts in a transaction, so that each
// counter is written once.
type countChanges struct {
	tokens []tokenCount
	logs   []logCount

	// The index of the sum of each counter. Only sums uses them.
	tokenSums map[tokenCounter]int
	logSums   map[logCounter]int
}

func newCountChanges() countChanges {
	return countChanges{tokenSums: map[tokenCounter]int{}, logSums: map[logCounter]int{}}
}

// tokenCount is a change to a row of token_counts.
type tokenCount struct {
	tokenCounter
	by int
}

type tokenCounter struct {
	tenant storage.ID
	set    storage.Hash
	kind   string
}

// logCount is a change to a row of log_counts.
type logCount struct {
	logCounter
	by int
}

type logCounter struct {
	tenant storage.ID
	kind   string
	day    int64
}

// countMark is a point to roll back to.
type countMark struct{ tokens, logs int }

func (t *countChanges) reset() { t.rollBack(countMark{}) }

func (t *countChanges) mark() countMark { return countMark{len(t.tokens), len(t.logs)} }

func (t *countChanges) rollBack(m countMark) { t.tokens, t.logs = t.tokens[:m.tokens], t.logs[:m.logs] }

func (t *countChanges) addToken(tenant storage.ID, set storage.Hash, kind string, by int) {
	t.tokens = append(t.tokens, tokenCount{tokenCounter{tenant, set, kind}, by})
}

func (t *countChanges) addLog(tenant storage.ID, l *storage.Log) {
	counter := logCounter{tenant, l.EntityType, sqlstore.LogDay(l.CreatedAt)}
	t.logs = append(t.logs, logCount{counter, 1})
}

// sums returns one change for each counter.
func (t *countChanges) sums() ([]tokenCount, []logCount) {
	if len(t.tokens) > 1 {
		t.tokens = summed(t.tokens, t.tokenSums, func(c *tokenCount) tokenCounter { return c.tokenCounter },
			func(sum, c *tokenCount) { sum.by += c.by })
	}
	if len(t.logs) > 1 {
		t.logs = summed(t.logs, t.logSums, func(c *logCount) logCounter { return c.logCounter },
			func(sum, c *logCount) { sum.by += c.by })
	}
	return t.tokens, t.logs
}

// summed adds up changes with the same key, in place. It leaves the map empty.
func summed[C any, K comparable](changes []C, at map[K]int, key func(*C) K, add func(sum, c *C)) []C {
	defer clear(at)
	n := 0
	for i := range changes {
		k := key(&changes[i])
		if sum, ok := at[k]; ok {
			add(&changes[sum], &changes[i])
			continue
		}
		at[k] = n
		changes[n] = changes[i]
		n++
	}
	return changes[:n]
}

// writeCounts writes the counters that the transaction has changed.
func (w *writer) writeCounts() error {
	tokens, logs := w.counts.sums()
	for i := range tokens {
		c := &tokens[i]
		if c.by == 0 {
			continue
		}
		if _, err := w.exec(stmtCountTokens, c.tenant[:], c.set[:], c.kind, c.by); err != nil {
			return err
		}
	}
	for i := range logs {
		c := &logs[i]
		if _, err := w.exec(stmtCountLogs, c.tenant[:], c.kind, c.day, c.by); err != nil {
			return err
		}
	}
	return nil
}
