package postgres

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// logPlace is a place in the log.
//
// A follower that starts at a time in the past first reads history, in the
// order of ids. History has the entries of all transactions below xid, which
// have ended. It also has the entries with transaction numbers that this server
// has not reached, which come from a server that the database was restored
// from.
//
// After history, or at once, the follower is live. It then reads the entries of
// transactions from xid on, in the order of their numbers, up to the oldest
// open one.
type logPlace struct {
	Live    bool
	Cluster int64 // the server that assigned the transaction numbers
	Since   int64 // ignore entries created before this time
	Seen    int64 // about when the last entry was created, in microseconds
	Xid     int64
	ID      storage.ID // of the last entry
}

// logBounds describes the state of the server's transactions. Transactions
// below oldest have ended, and transactions from next on have not begun.
// Entries of transactions below settled are visible everywhere; settled is zero
// while it is not known.
type logBounds struct{ oldest, settled, next, cluster int64 }

const logBoundsText = `SELECT txid_snapshot_xmin(s), txid_snapshot_xmax(s), c.system_identifier
	FROM txid_current_snapshot() s, pg_control_system() c`

func (s *Store) logBounds(ctx context.Context) (b logBounds, err error) {
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, logBoundsText).Scan(&b.oldest, &b.next, &b.cluster)
	})
	if err != nil {
		return b, link.Clean(err)
	}
	b.settled = s.logDelay.Bound(b.cluster, b.oldest)
	return b, nil
}

// overlap is how far a follower goes back when it finds itself on another
// server.
const overlap = time.Hour

// history returns the place before the entries that were created since a time.
func (b *logBounds) history(since int64) *logPlace {
	return &logPlace{Cluster: b.cluster, Since: since, Seen: since, Xid: b.settled, ID: sqlstore.FirstID(since)}
}

// place returns where to continue. Transaction numbers of another server mean
// nothing here, nor do numbers that this server has not reached because it was
// restored. The follower then goes back and sees some entries again, so that it
// misses none.
func (b *logBounds) place(f *storage.LogFollowing) (*logPlace, error) {
	switch {
	case f.After == nil && f.From.IsZero():
		return &logPlace{Live: true, Cluster: b.cluster, Since: math.MinInt64, Seen: time.Now().UnixMicro(), Xid: b.oldest}, nil
	case f.After == nil:
		return b.history(f.From.UnixMicro()), nil
	}
	p := &logPlace{}
	err := sqlstore.DecodePlace(f.After, p)
	if err == nil && (p.Cluster != b.cluster || p.Xid > b.next) {
		const hour = int64(overlap / time.Microsecond)
		p = b.history(max(p.Since, max(p.Seen, math.MinInt64+hour)-hour))
	}
	if err == nil && !p.Live && p.Xid == 0 {
		p.Xid = b.settled // the end of history was not known before
	}
	return p, err
}

// FollowLogs implements [storage.Follower].
func (s *Store) FollowLogs(ctx context.Context, f storage.LogFollowing) ([]storage.Log, storage.LogPlace, error) {
	b, err := s.logBounds(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, err := b.place(&f)
	if err != nil {
		return nil, nil, err
	}
	if b.settled == 0 {
		return nil, sqlstore.EncodePlace(p), nil
	}
	if f.Until != nil {
		return s.logsUntil(ctx, &f, p, &b)
	}
	var logs []storage.Log
	for !p.Live && len(logs) == 0 && err == nil && f.Limit > 0 {
		logs, err = s.pastLogs(ctx, &f, p, &b)
	}
	if p.Live && len(logs) == 0 && err == nil && f.Limit > 0 {
		logs, err = s.liveLogs(ctx, &f, p, &b)
	}
	p.see(logs)
	return logs, sqlstore.EncodePlace(p), err
}

// see notes the time of the last entry.
func (p *logPlace) see(logs []storage.Log) {
	if n := len(logs); n > 0 {
		p.Seen = logs[n-1].CreatedAt.UnixMicro()
	}
}

// followed returns the function that reads what a follower wants.
func followed(f *storage.LogFollowing) func(context.Context, *sqlstore.Store, string, string, ...any) ([]storage.Log, error) {
	if f.IDsOnly {
		return sqlstore.PackedIDs
	}
	return sqlstore.Followed
}

// pastLogs reads history after a place. It may return no entries before the end
// of history, if all the entries it has read come later in the order.
func (s *Store) pastLogs(ctx context.Context, f *storage.LogFollowing, p *logPlace, b *logBounds) ([]storage.Log, error) {
	const places = `l.created_at >= ? AND (l.xid < ? OR l.xid >= ?)`
	where := places
	if f.IDsOnly { // a row without one of them is no entry, but lists may show it
		where = `coalesce(` + places + `, true)`
	}
	page, err := followed(f)(ctx, s.reader, "l.xid", `l.tenant_id = ? AND l.id > ? AND `+where+` ORDER BY l.id LIMIT ?`,
		f.Tenant[:], p.ID[:], p.Since, p.Xid, b.next, f.Limit)
	if err != nil {
		return nil, err
	}
	if len(page) < f.Limit {
		p.Live, p.ID = true, storage.ID{}
	} else {
		p.ID = page[len(page)-1].ID
	}
	return s.withoutNew(ctx, page, b)
}

// withoutNew drops the entries of transactions that have begun since the bounds
// were read. The follower gets them when it is live.
func (s *Store) withoutNew(ctx context.Context, page []storage.Log, b *logBounds) ([]storage.Log, error) {
	if !slices.ContainsFunc(page, func(l storage.Log) bool { return l.Seq >= b.next }) {
		return page, nil
	}
	now, err := s.logBounds(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(page, func(l storage.Log) bool { return l.Seq >= b.next && l.Seq < now.next }), nil
}

// liveLogs reads entries of settled transactions after a place.
func (s *Store) liveLogs(ctx context.Context, f *storage.LogFollowing, p *logPlace, b *logBounds) ([]storage.Log, error) {
	page, err := followed(f)(ctx, s.reader, "l.xid", `l.tenant_id = ? AND l.xid >= ? AND l.xid < ?
		AND (l.xid > ? OR l.id > ?) AND l.created_at >= ? ORDER BY l.xid, l.id LIMIT ?`,
		f.Tenant[:], p.Xid, b.settled, p.Xid, p.ID[:], p.Since, f.Limit)
	if len(page) > 0 {
		p.Xid, p.ID = page[len(page)-1].Seq, page[len(page)-1].ID
	}
	return page, err
}

// logsUntil reads the entries before a place that was live from the start. They
// are the history that ends at that place.
func (s *Store) logsUntil(ctx context.Context, f *storage.LogFollowing, p *logPlace, b *logBounds) ([]storage.Log, storage.LogPlace, error) {
	var until logPlace
	if err := sqlstore.DecodePlace(f.Until, &until); err != nil {
		return nil, nil, err
	}
	if p.Live || f.Limit <= 0 || b.settled < until.Xid && until.Cluster == b.cluster {
		return nil, sqlstore.EncodePlace(p), nil
	}
	p.Xid = until.Xid
	logs, err := s.pastLogs(ctx, f, p, b)
	if err != nil {
		return nil, nil, err
	}
	p.see(logs)
	if p.Live {
		return logs, f.Until, nil
	}
	return logs, sqlstore.EncodePlace(p), nil
}
