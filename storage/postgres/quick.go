package postgres

import (
	"slices"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

// quick is a change as most are: at most one token that is created, with or
// without a claim, and one log entry. Its statement is composed once for all
// changes of its form.
type quick struct {
	claim, token, relaxed bool
	hashes                int // more than are listed are as good as one more
}

// quickTexts are the statements of quick changes.
var quickTexts sync.Map // of quick to string

// quickForm tells the form of a change, if it is a quick one.
func (s *slot) quickForm(c *storage.Change, sets []storage.ContainerSet) (quick, bool) {
	if classOf(c) == alone || len(c.Logs) != 1 || len(sets) > 0 {
		return quick{}, false
	}
	q := quick{claim: c.Claim != nil, token: len(c.InsertTokens) > 0, relaxed: onlyReadLogs(c) && !s.unsynced}
	if q.token {
		q.hashes = min(numberOfHashes(c.InsertTokens[0].Hashes), maxListedHashes+1)
	}
	return q, true
}

// text returns the statement of all changes that have the form of this one.
func (q quick) text(c *storage.Change) string {
	if text, ok := quickTexts.Load(q); ok {
		return text.(string)
	}
	text := compose(c, 0, nil, q.relaxed).text()
	quickTexts.Store(q, text)
	return text
}

// quickArgs are the parameters of a quick change, as compose orders them.
func (s *slot) quickArgs(c *storage.Change) []any {
	if s.single == nil {
		s.single = newRow(slices.Concat(tenantColumn, tokenColumns, claimColumns, logColumns))
	}
	args := s.single
	args.reset()
	args.bytes(c.Tenant[:])
	if len(c.InsertTokens) > 0 {
		putToken(args, &c.InsertTokens[0])
		args.int(s.shard)
	}
	if c.Claim != nil {
		args.int(1)
		putClaim(args, &c.Claim.Claim)
		args.int(c.Now.UnixMicro())
		args.int(1)
	}
	putLog(args, &c.Logs[0])
	return args.scalars
}
