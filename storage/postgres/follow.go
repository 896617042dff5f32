package postgres

import (
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// logPlace is a place in the log. A follower that begins at a time in the past
// reads history first: by their ids, the entries of all transactions below xid,
// which have ended, and of those whose numbers the server has not come to, which
// are of another one that the database was restored from. After that, or at once,
// it is live: it reads the entries of the transactions from xid on, in that order,
// up to the oldest one that is open.
type logPlace struct {
	live    bool
	cluster int64 // the server whose numbers these are
	since   int64 // entries that were created before it do not count
	seen    int64 // about when the last entry was created, in microseconds
	xid     int64
	id      storage.ID // of the last entry
}

const placeSize = 1 + 4*8 + len(storage.ID{})

func (p *logPlace) encode() storage.LogPlace {
	b := make([]byte, 1, placeSize)
	if p.live {
		b[0] = 1
	}
	for _, n := range []int64{p.cluster, p.since, p.seen, p.xid} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return append(b, p.id[:]...)
}

func decodePlace(b storage.LogPlace) (*logPlace, error) {
	if len(b) != placeSize || b[0] > 1 {
		return nil, sqlstore.ErrPlace
	}
	p := &logPlace{live: b[0] == 1}
	for i, n := range []*int64{&p.cluster, &p.since, &p.seen, &p.xid} {
		*n = int64(binary.BigEndian.Uint64(b[1+8*i:]))
	}
	copy(p.id[:], b[placeSize-len(p.id):])
	return p, nil
}

// logBounds are what the server says of its transactions: those below oldest have
// ended, those from next on have not begun. What the ones below settled have
// written can be seen everywhere; it is zero while that is not known.
type logBounds struct{ oldest, settled, next, cluster int64 }

const logBoundsText = `SELECT txid_snapshot_xmin(s), txid_snapshot_xmax(s), c.system_identifier
	FROM txid_current_snapshot() s, pg_control_system() c`

func (s *Store) logBounds(ctx context.Context) (b logBounds, err error) {
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, logBoundsText).Scan(&b.oldest, &b.next, &b.cluster)
	})
	if err != nil {
		return b, clean(err)
	}
	b.settled = s.settling.bound(&b)
	return b, nil
}

// overlap is how far back a follower goes that finds itself on another server.
const overlap = time.Hour

// history is the place before the entries that were created since a time.
func (b *logBounds) history(since int64) *logPlace {
	return &logPlace{cluster: b.cluster, since: since, seen: since, xid: b.settled, id: sqlstore.FirstID(since)}
}

// place is where to go on. The numbers of another server say nothing on this one,
// nor do those that this one has not come to: it was restored. Then the follower
// sees some entries again, lest it miss any.
func (b *logBounds) place(f *storage.LogFollowing) (*logPlace, error) {
	switch {
	case f.After == nil && f.From.IsZero():
		return &logPlace{live: true, cluster: b.cluster, since: math.MinInt64, seen: time.Now().UnixMicro(), xid: b.oldest}, nil
	case f.After == nil:
		return b.history(f.From.UnixMicro()), nil
	}
	p, err := decodePlace(f.After)
	if err == nil && (p.cluster != b.cluster || p.xid > b.next) {
		p = b.history(max(p.since, p.seen-overlap.Microseconds()))
	}
	if err == nil && !p.live && p.xid == 0 {
		p.xid = b.settled // it was not known where history ends
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
		return nil, p.encode(), nil
	}
	if f.Until != nil {
		return s.logsUntil(ctx, &f, p, &b)
	}
	var page []sqlstore.FollowedLog
	for !p.live && len(page) == 0 && err == nil && f.Limit > 0 {
		page, err = s.pastLogs(ctx, &f, p, &b)
	}
	if p.live && len(page) == 0 && err == nil && f.Limit > 0 {
		page, err = s.liveLogs(ctx, &f, p, &b)
	}
	logs := make([]storage.Log, len(page))
	for i := range page {
		logs[i] = page[i].Log
		p.seen = page[i].CreatedAt.UnixMicro()
	}
	return logs, p.encode(), err
}

// pastLogs reads history, after a place. It may return nothing before the end, when
// all that it has read is for later.
func (s *Store) pastLogs(ctx context.Context, f *storage.LogFollowing, p *logPlace, b *logBounds) ([]sqlstore.FollowedLog, error) {
	page, err := sqlstore.Followed(ctx, s.reader, "COALESCE(l.xid, 0)", `l.tenant_id = ? AND l.id > ? AND l.created_at >= ?
		AND (l.xid IS NULL OR l.xid < ? OR l.xid >= ?) ORDER BY l.id LIMIT ?`,
		f.Tenant[:], p.id[:], p.since, p.xid, b.next, f.Limit)
	if err != nil {
		return nil, err
	}
	if len(page) < f.Limit {
		p.live, p.id = true, storage.ID{}
	} else {
		p.id = page[len(page)-1].ID
	}
	return s.withoutNew(ctx, page, b)
}

// withoutNew drops the entries of transactions that have begun since the bounds
// were read: they come when the follower is live.
func (s *Store) withoutNew(ctx context.Context, page []sqlstore.FollowedLog, b *logBounds) ([]sqlstore.FollowedLog, error) {
	if !slices.ContainsFunc(page, func(l sqlstore.FollowedLog) bool { return l.Number >= b.next }) {
		return page, nil
	}
	now, err := s.logBounds(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(page, func(l sqlstore.FollowedLog) bool { return l.Number >= b.next && l.Number < now.next }), nil
}

// liveLogs reads the entries of transactions that have settled, after a place.
func (s *Store) liveLogs(ctx context.Context, f *storage.LogFollowing, p *logPlace, b *logBounds) ([]sqlstore.FollowedLog, error) {
	page, err := sqlstore.Followed(ctx, s.reader, "l.xid", `l.tenant_id = ? AND l.xid >= ? AND l.xid < ?
		AND (l.xid > ? OR l.id > ?) AND l.created_at >= ? ORDER BY l.xid, l.id LIMIT ?`,
		f.Tenant[:], p.xid, b.settled, p.xid, p.id[:], p.since, f.Limit)
	if len(page) > 0 {
		p.xid, p.id = page[len(page)-1].Number, page[len(page)-1].ID
	}
	return page, err
}

// logsUntil reads the entries before a place that was live at once. They are those
// of the history whose end is that place.
func (s *Store) logsUntil(ctx context.Context, f *storage.LogFollowing, p *logPlace, b *logBounds) ([]storage.Log, storage.LogPlace, error) {
	until, err := decodePlace(f.Until)
	if err != nil {
		return nil, nil, err
	}
	if p.live || f.Limit <= 0 || b.settled < until.xid && until.cluster == b.cluster {
		return nil, p.encode(), nil
	}
	p.xid = until.xid
	page, err := s.pastLogs(ctx, f, p, b)
	if err != nil {
		return nil, nil, err
	}
	logs := make([]storage.Log, len(page))
	for i := range page {
		logs[i] = page[i].Log
		p.seen = page[i].CreatedAt.UnixMicro()
	}
	if p.live {
		return logs, f.Until, nil
	}
	return logs, p.encode(), nil
}
