package sqlite

import (
	"bytes"
	"context"
	"maps"
	"math"
	"time"

	"modernc.org/sqlite"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// logPlace is a place in the log. The log is in commit order, because there is
// one writer at a time.
type logPlace struct {
	Seq   int64
	ID    storage.ID // of the last entry
	Since int64      // ignore entries created before this time
}

// highestID sorts after all entries of a transaction.
var highestID = storage.ID(bytes.Repeat([]byte{0xff}, len(storage.ID{})))

const lastSeq = `SELECT COALESCE(max(seq), 0) FROM vault_logs WHERE tenant_id = ?`

// hiddenLogs counts the entries that lists may show, and that followers do not see: the
// index does not have them, or they have no number or no id.
const hiddenLogs = `SELECT (SELECT count(*) FROM vault_logs INDEXED BY sqlite_autoindex_vault_logs_1 WHERE tenant_id = ?) -
	(SELECT count(*) FROM vault_logs INDEXED BY vault_logs_seq WHERE tenant_id = ?
		AND seq BETWEEN -9223372036854775808 AND 9223372036854775807 AND id >= x'')`

// FollowLogs implements [storage.Follower].
func (s *Store) FollowLogs(ctx context.Context, f storage.LogFollowing) ([]storage.Log, storage.LogPlace, error) {
	p := &logPlace{Since: math.MinInt64}
	var err error
	switch {
	case f.After != nil:
		err = sqlstore.DecodePlace(f.After, p)
	case f.From.IsZero():
		if p.Seq, err = sqlstore.Number(ctx, s.reader, lastSeq, f.Tenant[:]); err != nil {
			return nil, nil, err
		}
		p.ID = highestID
		return nil, sqlstore.EncodePlace(p), nil // entries written since then come after the place
	default:
		p.Since, p.Seq = f.From.UnixMicro(), math.MinInt64
		p.ID = sqlstore.FirstID(p.Since)
	}
	last := int64(math.MaxInt64)
	if err == nil && f.Until != nil {
		var until logPlace
		err = sqlstore.DecodePlace(f.Until, &until)
		last = until.Seq
	}
	if err != nil {
		return nil, nil, err
	}
	if f.IDsOnly && f.After == nil {
		hidden, err := sqlstore.Number(ctx, s.reader, hiddenLogs, f.Tenant[:], f.Tenant[:])
		if err == nil && hidden != 0 {
			err = storage.ErrMalformed
		}
		if err != nil {
			return nil, nil, err
		}
	}
	page, err := s.followed(ctx, &f, p, last)
	if err != nil {
		return nil, nil, err
	}
	if f.Until != nil && len(page) < f.Limit {
		return page, f.Until, nil
	}
	if n := len(page); n > 0 {
		p.Seq, p.ID = page[n-1].Seq, page[n-1].ID
	}
	return page, sqlstore.EncodePlace(p), nil
}

// followed reads the entries after a place, up to the number last. An index alone
// has the ids.
func (s *Store) followed(ctx context.Context, f *storage.LogFollowing, p *logPlace, last int64) ([]storage.Log, error) {
	const after = `l.tenant_id = ? AND (l.seq, l.id) > (?, ?) AND l.seq <= ? AND l.id >= ?`
	const order = ` ORDER BY l.seq, l.id LIMIT ?`
	first := sqlstore.FirstID(p.Since)
	if f.IDsOnly {
		return sqlstore.FollowedIDs(ctx, s.reader, "l.seq", after+order, f.Tenant[:], p.Seq, p.ID[:], last, first[:], f.Limit)
	}
	return sqlstore.Followed(ctx, s.reader, "l.seq", after+` AND l.created_at >= ?`+order,
		f.Tenant[:], p.Seq, p.ID[:], last, first[:], p.Since, f.Limit)
}

// seqs holds the sequence numbers of the current transaction in the logs of
// tenants.
type seqs map[storage.ID]int64

// seqOf returns the number of the current transaction in the log of a tenant.
// It is higher than all earlier numbers. It starts from the clock, so that this
// holds even if those entries have been deleted.
func (w *writer) seqOf(tenant storage.ID) (int64, error) {
	if n, ok := w.seqs[tenant]; ok {
		return n, nil
	}
	n := time.Now().UnixMicro()
	w.known.check(w)
	if last, ok := w.known.seqs[tenant]; ok {
		w.seqs[tenant] = max(n, last+1)
		return w.seqs[tenant], nil
	}
	err := w.query(stmtLastSeq, func(row direct.Row) error {
		last, _ := row[0].(int64)
		n = max(n, last+1)
		return nil
	}, tenant[:])
	w.seqs[tenant] = n
	return n, err
}

// known remembers facts about the database as long as no other connection
// changes it.
type known struct {
	seqs    seqs              // the last number of each tenant
	holds   map[held]struct{} // records that had this revision
	version uint32            // of the database after the last transaction; zero if unknown
	checked bool              // the version is still the same in the current transaction
}

// held is a revision of a record.
type held struct {
	tenant storage.ID
	storage.Hold
}

func newKnown() known { return known{seqs: seqs{}, holds: map[held]struct{}{}} }

// maxKnown limits the remembered numbers, and the remembered revisions.
const maxKnown = 10_000

// check forgets everything if another connection has changed the database. The
// transaction must have begun, so that no other connection can write.
func (k *known) check(w *writer) {
	if k.checked {
		return
	}
	if now := w.dataVersion(); now == 0 || now != k.version {
		k.forget()
	}
	k.checked = true
}

func (k *known) forget() {
	clear(k.seqs)
	clear(k.holds)
}

// committed remembers the numbers of a transaction that has just been
// committed.
func (k *known) committed(w *writer) {
	if !k.checked { // another connection may have written before the transaction
		k.forget()
	}
	if len(k.seqs) > maxKnown {
		clear(k.seqs)
	}
	maps.Copy(k.seqs, w.seqs)
	k.version = w.dataVersion()
}

// dataVersion returns a number that changes whenever the database does, or zero
// if the number is unknown. It sees changes of other connections when a transaction
// begins.
func (w *writer) dataVersion() (version uint32) {
	if w.file.memory || w.tx != nil {
		return 0
	}
	_ = w.conn.Raw(func(on any) error {
		if c, ok := on.(sqlite.FileControl); ok {
			version, _ = c.FileControlDataVersion("main") // zero after an error
		}
		return nil
	})
	return version
}
