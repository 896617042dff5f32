package postgres

import (
	"slices"
	"sync/atomic"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// createsOne reports whether a change creates a single token, logs that, and
// does nothing else. It is the most common change, so its statement is not
// composed each time.
func createsOne(c *storage.Change) bool {
	return len(c.InsertTokens) == 1 && len(c.Logs) == 1 && c.Claim == nil &&
		len(c.UpdateTokens)+len(c.DeleteTokens)+len(c.InsertRecords)+len(c.UpdateRecords)+len(c.DeleteRecords)+
			len(c.InsertJobs)+len(c.UpdateJobs)+len(c.DeleteJobs)+len(c.Reseal) == 0
}

// createTexts are the statements that create a single token, with and without a
// hold, by the number of its hashes.
var createTexts [2][maxListedHashes + 2]atomic.Pointer[string]

// createText returns the statement of a change that creates a single token.
func (s *slot) createText(c *storage.Change) string {
	hashes := min(numberOfHashes(c.InsertTokens[0].Hashes), maxListedHashes+1)
	known := &createTexts[boolByte(c.Hold != nil)][hashes]
	if text := known.Load(); text != nil {
		return *text
	}
	text := s.composed(c).text()
	known.Store(&text)
	return text
}

// composed returns the statement of a change that is not split.
func (s *slot) composed(c *storage.Change) *statement {
	st := s.start(c.Tenant)
	st.apply(c, s.shard)
	if c.Hold != nil {
		st.hold(c.Hold, "")
	}
	return st
}

// createColumns are the parameters of createText. The last four are for the hold.
var createColumns = slices.Concat(tenantColumn, tokenColumns, columns{{"shard", bigint}}, shardedSetColumns, logColumns,
	recordDeleteColumns, columns{{"held", bigint}})

// createArgs returns the parameters of createText, in the order in which
// [statement.apply] adds them.
func (s *slot) createArgs(c *storage.Change) []any {
	t, r := &c.InsertTokens[0], s.row(createColumns)
	if len(t.Body) > maxCopied {
		r = newRow(createColumns) // and does not stay in memory
	}
	r.bytes(c.Tenant[:])
	putToken(r, t)
	r.int(s.shard)
	r.bytes(t.Set[:])
	r.text(sqlstore.JoinContainers(t.Containers))
	r.int(min(s.shard, 0))
	putLog(r, &c.Logs[0])
	if h := c.Hold; h != nil {
		r.text(h.Kind)
		r.bytes(h.ID[:])
		r.int(h.Rev)
		r.int(1)
	}
	return r.values(nil)
}
