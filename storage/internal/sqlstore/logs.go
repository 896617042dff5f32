package sqlstore

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

var logColumns = LogRow.Names("l.")

const microsPerDay = int64(24 * time.Hour / time.Microsecond)

// LogDay returns the day of a time in log_counts.
func LogDay(t time.Time) int64 { return dayOf(t.UnixMicro()) }

func dayOf(micros int64) int64 {
	day := micros / microsPerDay
	if micros%microsPerDay < 0 {
		day--
	}
	return day
}

// ListLogs implements [storage.TokenReader].
func (s *Store) ListLogs(ctx context.Context, f storage.LogFilter) ([]storage.Log, int, error) {
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	leave, err := s.enterList(ctx, f.Tenant)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	ctx = s.of(ctx, f.Tenant)
	l := s.newLogList(f)
	found, err := l.narrow(ctx)
	if err != nil || !found {
		return nil, 0, err
	}
	page, err := l.page(ctx)
	if err != nil {
		return nil, 0, err
	}
	if !f.Before.IsZero() {
		return page, 0, nil
	}
	if n, ok := wholeTotal(len(page), f.Offset, f.Limit, storage.ID{}); ok {
		return page, n, nil
	}
	total, err := l.total(ctx)
	if err != nil {
		return nil, 0, err
	}
	return page, total, nil
}

// logList is a list of log entries.
type logList struct {
	store  *Store
	filter storage.LogFilter

	byType clause // tenant and type, on logs l or log_counts l
	rest   clause // everything else, on logs l

	uncounted bool // the filter uses columns that log_counts does not have

	timed    bool  // the filter has a time
	from, to int64 // microseconds: at or after from, before to

	types []string // types of the entries in the list, if log_counts was read
	ids   clause   // range of their ids, if known
}

func (s *Store) newLogList(f storage.LogFilter) *logList {
	l := &logList{store: s, filter: f, ids: always, to: maxMicros, from: -maxMicros}
	byType := []clause{{`l.tenant_id = ?`, []any{s.dialect.ID(f.Tenant)}}}
	if f.EntityType != "" {
		byType = append(byType, clause{`l.entity_type = ?`, []any{f.EntityType}})
	}
	rest := []clause{always}
	if slices.Contains(seldomTypes, f.EntityType) && !s.dialect.LogsByType {
		rest = append(rest, clause{ofSeldomType, nil})
	}
	if f.EntityID != "" {
		rest = append(rest, clause{`l.entity_id = ?`, []any{f.EntityID}})
	}
	if !f.From.IsZero() {
		l.from, l.timed = microsUp(f.From), true
		rest = append(rest, clause{`l.created_at >= ?`, []any{l.from}})
	}
	if !f.To.IsZero() {
		l.to, l.timed = microsUp(f.To), true
		rest = append(rest, clause{`l.created_at < ?`, []any{l.to}})
	}
	if own := s.logsBy(f); len(own) > 0 {
		rest, l.uncounted = append(rest, own...), true
	} else if f.EntityID == "" && f.Offset == 0 {
		l.store = s.prepares()
	}
	l.byType, l.rest = join(byType, " AND "), join(rest, " AND ")
	return l
}

// vault_logs has two partial indexes: one on operation, which skips the most
// common operations, and one on entity_type, which covers everything except
// tokens. The conditions repeat the WHERE clauses of these indexes, so that the
// database knows that it may use them.
var (
	oftenOperations = []string{"create", "read", "use"}
	seldomTypes     = []string{"application", "proxy", "reactor", "session", "tenant"}

	ofSeldomOperation = `l.operation <> '` + strings.Join(oftenOperations, `' AND l.operation <> '`) + `'`
	ofSeldomType      = `l.entity_type IN ('` + strings.Join(seldomTypes, "', '") + `')`
)

// logsBy returns the conditions on columns that log_counts does not have. An
// index helps with the operation, unless it is one of the most common.
func (s *Store) logsBy(f storage.LogFilter) []clause {
	var all []clause
	if f.Operation != "" {
		all = append(all, clause{`l.operation = ?`, []any{f.Operation}})
		if !slices.Contains(oftenOperations, f.Operation) {
			all = append(all, clause{ofSeldomOperation, nil})
		}
	}
	if !f.ActorID.IsZero() {
		all = append(all, clause{`l.actor_id = ?`, []any{s.dialect.ID(f.ActorID)}})
	}
	if f.ActorType != "" {
		all = append(all, clause{`l.actor_type = ?`, []any{f.ActorType}})
	}
	if !f.Before.IsZero() {
		all = append(all, clause{`l.id < ?`, []any{s.dialect.ID(f.Before)}})
	}
	return all
}

// maxMicros is later than any time, and its negative is earlier.
const maxMicros = int64(1) << 62

// narrow finds the range of ids of the entries in the list, whose timestamps
// are the milliseconds of created_at. If the log is stored by type, it also
// finds their types. It reports whether there may be any entries.
func (l *logList) narrow(ctx context.Context) (bool, error) {
	if l.filter.EntityID != "" {
		return true, nil
	}
	id := func(millis int64) []any { return []any{l.store.dialect.ID(idOfMillis(millis))} }
	ends := []clause{always}
	if l.from > 0 {
		ends = append(ends, clause{`l.id >= ?`, id(l.from / perMilli)})
	}
	if l.to < maxMicros {
		ends = append(ends, clause{`l.id < ?`, id((max(l.to, 0) + perMilli - 1) / perMilli)})
	}
	l.ids = join(ends, " AND ")
	if !l.store.dialect.LogsByType {
		return true, nil
	}
	var kind string
	l.types = nil
	err := l.store.each(ctx, `SELECT DISTINCT l.entity_type FROM vault_log_counts l WHERE `+l.byType.text+` AND l.day BETWEEN ? AND ?`,
		slices.Concat(l.byType.args, []any{dayOf(l.from), dayOf(l.to - 1)}),
		[]Field{{&kind}}, func() { l.types = append(l.types, kind) })
	return len(l.types) > 0, err
}

// where returns the condition of the list on logs l.
func (l *logList) where() clause {
	all := []clause{l.byType, l.rest, l.ids}
	if len(l.types) > 1 {
		text, args := l.store.dialect.In(`l.entity_type`, anys(l.types))
		all = append(all, clause{text, args})
	}
	return join(all, " AND ")
}

func (l *logList) page(ctx context.Context) ([]storage.Log, error) {
	limit, offset := max(l.filter.Limit, 0), max(l.filter.Offset, 0)
	query := l.pageQuery(limit, offset)
	var e storage.Log
	return readRows(ctx, l.store, nil, 0, query, &e, logDest(&e), func(*storage.Log) int { return 0 })
}

func (l *logList) pageQuery(limit, offset int) clause {
	switch {
	case len(l.types) > 1 && len(l.types) <= maxPairs:
		return l.mergedPage(limit, offset)
	case offset >= deepOffset && !l.store.dialect.LogsByType:
		ids := l.entries(`l.id`, l.where(), limit, offset)
		return clause{`SELECT ` + logColumns + ` FROM vault_logs l WHERE l.tenant_id = ? AND l.id IN (SELECT * FROM (` + ids.text + `) p)
			ORDER BY l.id DESC`, append([]any{l.store.dialect.ID(l.filter.Tenant)}, ids.args...)}
	default:
		return l.entries(logColumns, l.where(), limit, offset)
	}
}

// entries returns the query for columns of a page of the entries that match a
// condition.
func (l *logList) entries(columns string, where clause, limit, offset int) clause {
	return clause{`SELECT ` + columns + ` FROM vault_logs l WHERE ` + where.text + ` ORDER BY l.id DESC` + limited(limit, offset), where.args}
}

// mergedPage takes as many entries of each type as the page could need, each in
// the order of a key that starts with the type, and sorts them.
func (l *logList) mergedPage(limit, offset int) clause {
	parts := make([]clause, len(l.types))
	for i, kind := range l.types {
		where := join([]clause{l.byType, {`l.entity_type = ?`, []any{kind}}, l.rest, l.ids}, " AND ")
		parts[i] = l.entries(logColumns, where, limit+offset, 0)
	}
	union := all(parts, 0, false)
	return clause{`SELECT l.* FROM (` + union.text + `) l ORDER BY l.id DESC` + limited(limit, offset), union.args}
}

// total counts the entries on all pages. It uses log_counts for whole days, and
// counts rows for the partial days at the ends.
func (l *logList) total(ctx context.Context) (int, error) {
	where := l.where()
	if most := l.filter.CountUpTo; most > 0 {
		return l.store.count(ctx, `SELECT count(*) FROM (SELECT 1 FROM vault_logs l WHERE `+where.text+` LIMIT ?) f`,
			slices.Concat(where.args, []any{most})...)
	}
	if l.filter.EntityID != "" || l.uncounted {
		return l.store.count(ctx, `SELECT count(*) FROM vault_logs l WHERE `+where.text, where.args...)
	}
	first, last := dayOf(l.from+microsPerDay-1), dayOf(l.to)-1 // the whole days
	total, err := l.countDays(ctx, first, last)
	if err != nil || !l.timed {
		return total, err
	}
	for _, day := range slices.Compact([]int64{dayOf(l.from), dayOf(l.to - 1)}) {
		if first <= day && day <= last {
			continue
		}
		n, err := l.countDay(ctx, day)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// countDays adds up the counts of whole days, and the entries of those days
// that are not counted yet.
func (l *logList) countDays(ctx context.Context, first, last int64) (int, error) {
	sum := clause{`SELECT CAST(COALESCE(SUM(l.n), 0) AS bigint) FROM vault_log_counts l WHERE ` + l.byType.text + ` AND l.day BETWEEN ? AND ?`,
		slices.Concat(l.byType.args, []any{first, last})}
	d := &l.store.dialect
	if d.Uncounted == "" {
		return l.store.count(ctx, sum.text, sum.args...)
	}
	rest := join([]clause{l.byType, {d.Uncounted, []any{d.ID(l.filter.Tenant)}},
		{`l.created_at >= ? AND l.created_at < ?`, []any{first * microsPerDay, (last + 1) * microsPerDay}}}, " AND ")
	var counted, found int
	err := l.store.each(ctx, `SELECT (`+sum.text+`), (SELECT count(*) FROM vault_logs l WHERE `+rest.text+`)`,
		slices.Concat(sum.args, rest.args), []Field{{&counted}, {&found}}, func() {})
	if err == nil {
		d.NoteLogs(l.filter.Tenant, found)
	}
	return counted + found, err
}

// countDay counts the entries of a partial day.
func (l *logList) countDay(ctx context.Context, day int64) (int, error) {
	part := *l
	part.from, part.to = max(l.from, day*microsPerDay), min(l.to, (day+1)*microsPerDay)
	part.timed = true
	part.rest = clause{`l.created_at >= ? AND l.created_at < ?`, []any{part.from, part.to}}
	found, err := part.narrow(ctx)
	if err != nil || !found {
		return 0, err
	}
	where := part.where()
	return l.store.count(ctx, `SELECT count(*) FROM vault_logs l WHERE `+where.text, where.args...)
}

// logTenantsQuery steps from tenant to tenant through the key of logs, so its
// cost depends on the number of tenants, not of entries. For each tenant it
// looks for one entry below the id. A scalar subquery, unlike EXISTS, never
// becomes a join, which could read all old entries.
const logTenantsQuery = `
WITH RECURSIVE logged(tenant) AS (
	SELECT * FROM (SELECT l.tenant_id FROM vault_logs l WHERE l.tenant_id > ? ORDER BY l.tenant_id LIMIT 1) AS first
	UNION ALL
	SELECT (SELECT l.tenant_id FROM vault_logs l WHERE l.tenant_id > logged.tenant ORDER BY l.tenant_id LIMIT 1)
	FROM logged WHERE logged.tenant IS NOT NULL
)
SELECT logged.tenant FROM logged WHERE logged.tenant IS NOT NULL AND (
	SELECT 1 FROM vault_logs l WHERE l.tenant_id = logged.tenant AND l.id < ? AND l.created_at < ? ORDER BY l.id LIMIT 1
) = 1 LIMIT ?`

// countedTenantsQuery does the same through log_counts, from type to type of
// each tenant, if the key of logs has the type before the id.
const countedTenantsQuery = `
WITH RECURSIVE logged(tenant) AS (
	SELECT * FROM (SELECT c.tenant_id FROM vault_log_counts c WHERE c.tenant_id > ? ORDER BY c.tenant_id LIMIT 1) AS first
	UNION ALL
	SELECT (SELECT c.tenant_id FROM vault_log_counts c WHERE c.tenant_id > logged.tenant ORDER BY c.tenant_id LIMIT 1)
	FROM logged WHERE logged.tenant IS NOT NULL
)
SELECT logged.tenant FROM logged WHERE logged.tenant IS NOT NULL AND (
	WITH RECURSIVE types(name) AS (
		SELECT MIN(c.entity_type) FROM vault_log_counts c WHERE c.tenant_id = logged.tenant
		UNION ALL
		SELECT (SELECT MIN(c.entity_type) FROM vault_log_counts c WHERE c.tenant_id = logged.tenant AND c.entity_type > types.name)
		FROM types WHERE types.name IS NOT NULL
	)
	SELECT 1 FROM types CROSS JOIN vault_logs l
	WHERE l.tenant_id = logged.tenant AND l.entity_type = types.name AND l.id < ? AND l.created_at < ? LIMIT 1
) = 1 LIMIT ?`

// LogTenants implements [storage.Pruner].
func (s *Store) LogTenants(ctx context.Context, before time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	query := logTenantsQuery
	switch {
	case s.dialect.LogTenants != "":
		query = s.dialect.LogTenants
	case s.dialect.LogsByType:
		query = countedTenantsQuery
	}
	first, at := LogsBefore(before)
	return s.tenants(ctx, query, s.dialect.ID(after), s.dialect.ID(first), at, max(limit, 0))
}

// LogsBefore returns the bounds of the entries that were created before a time.
// Their ids are lower than first, and their created_at is lower than micros.
func LogsBefore(t time.Time) (first storage.ID, micros int64) {
	micros = max(microsUp(t), 0)
	return idOfMillis((micros + perMilli - 1) / perMilli), micros
}

const (
	perMilli = int64(time.Millisecond / time.Microsecond)
	// maxMillis is the latest time that a UUIDv7 can hold.
	maxMillis = int64(1)<<48 - 1
)

// idOfMillis returns an id that is lower than every UUIDv7 of a time, and
// higher than every UUIDv7 before it.
func idOfMillis(millis int64) (id storage.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(min(millis, maxMillis))<<16)
	return id
}
