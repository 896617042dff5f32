package sqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

var recordColumns = "r.tenant_id, " + RecordRow.Without("name_fold").Names("r.")

const recordByHash = `vault_lookups l
	JOIN vault_records r ON r.tenant_id = l.tenant_id AND r.kind = l.kind AND r.id = l.id
	WHERE l.hash = ?`

// recordDest returns the destinations for scanning recordColumns.
func recordDest(r *storage.Record) []Field {
	return []Field{
		{&r.Tenant}, {&r.Kind}, {&r.ID}, {&r.Name}, {&r.Key}, {&r.AltKey}, {&r.ExpiresAt},
		{&r.KeyVersion}, {&r.Body}, {&r.CreatedAt}, {&r.Rev},
	}
}

// Lookup implements [storage.RecordReader].
func (s *Store) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	var r storage.Record
	find, dest := pointLookup, recordDest(&r)
	if s.dialect.LookupInSteps { // finds the tenant first, and with it the server of the record
		find, dest = pointKey, []Field{{&r.Tenant}, {&r.Kind}, {&r.ID}}
	}
	known, err := s.one(ctx, find, into(dest), key[:])
	if err == nil && known && s.dialect.LookupInSteps {
		known, err = s.one(s.of(ctx, r.Tenant), pointRecord, into(recordDest(&r)), s.dialect.ID(r.Tenant), r.Kind, s.dialect.ID(r.ID))
		known = known && (r.Key == key || r.AltKey == key) // it may have got another key since
	}
	switch {
	case err != nil:
		return storage.Record{}, err
	case !known:
		return storage.Record{}, storage.ErrNotFound
	}
	return r, nil
}

// Records implements [storage.RecordReader].
func (s *Store) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	ctx = s.of(ctx, tenant)
	var found []storage.Record
	for chunk := range slices.Chunk(s.ids(ids), idsAtOnce) {
		in, args := s.dialect.In("r.id", chunk)
		rs, err := s.records(ctx, 0, recordsWhere(`r.tenant_id = ? AND r.kind = ? AND `+in,
			append([]any{s.dialect.ID(tenant), kind}, args...)))
		if err != nil {
			return nil, err
		}
		found = append(found, rs...)
	}
	spoilTwins(found)
	return found, nil
}

// spoilTwins removes the bodies of records with the same id, so that they do not open.
// A table without its key has them, and the first one may be an older one.
func spoilTwins(records []storage.Record) {
	if len(records) < 2 {
		return
	}
	first := make(map[storage.ID]int, len(records))
	for i := range records {
		if j, ok := first[records[i].ID]; ok {
			records[i].Body, records[j].Body = nil, nil
		}
		first[records[i].ID] = i
	}
}

// ids returns the driver's values for the distinct ids.
func (s *Store) ids(ids []storage.ID) []any {
	args := make([]any, 0, len(ids))
	for _, id := range distinct(ids) {
		args = append(args, s.dialect.ID(id))
	}
	return args
}

func recordsWhere(where string, args []any) clause {
	return clause{`SELECT ` + recordColumns + ` FROM vault_records r WHERE ` + where, args}
}

// records returns the records of a query, up to maxBytes if that is not zero. A record
// with a column of the wrong type or length has no body, so that it does not open. It does
// not keep the others from being read.
func (s *Store) records(ctx context.Context, maxBytes int, query clause) (found []storage.Record, err error) {
	var r storage.Record
	dest, malformed, page := recordDest(&r), false, pageBytes{most: maxBytes}
	for i := range dest {
		dest[i] = Field{loose{dest[i], &malformed}}
	}
	restart := func() { found, page = nil, pageBytes{most: maxBytes} }
	err = s.until(ctx, query.text, query.args, dest, restart, func() error {
		if malformed {
			r.Body = nil
		}
		found = append(found, r)
		r, malformed = storage.Record{}, false // the next row may not set every column
		return page.add(len(found[len(found)-1].Body))
	})
	return found, err
}

// ListRecords implements [storage.RecordReader].
func (s *Store) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	if f.IDs != nil && len(f.IDs) == 0 {
		return nil, 0, s.ready(ctx)
	}
	ctx = s.of(ctx, f.Tenant)
	kinds, err := s.kinds(ctx, f)
	if err != nil || len(kinds) == 0 {
		return nil, 0, err
	}
	page, err := s.records(ctx, f.MaxBytes, s.recordPage(kinds))
	if err != nil {
		return nil, 0, err
	}
	if !f.Before.IsZero() {
		return page, 0, nil
	}
	if n, ok := wholeTotal(len(page), f.Offset, f.Limit, f.Before); ok {
		return page, n, nil
	}
	total := 0
	for _, kind := range kinds {
		n, err := s.countRecords(ctx, kind)
		if err != nil {
			return nil, 0, err
		}
		total += n
	}
	return page, total, nil
}

// kinds returns a filter for each kind of the tenant's records, because no index
// has the records of several kinds in the order of their ids.
func (s *Store) kinds(ctx context.Context, f storage.RecordFilter) (kinds []storage.RecordFilter, err error) {
	if f.Kind != "" || f.Tenant.IsZero() {
		return []storage.RecordFilter{f}, nil
	}
	for {
		found := false
		err := s.each(ctx, `SELECT r.kind FROM vault_records r WHERE r.tenant_id = ? AND r.kind > ? ORDER BY r.kind LIMIT 1`,
			[]any{s.dialect.ID(f.Tenant), f.Kind}, []Field{{&f.Kind}}, func() { found = true })
		if err != nil || !found {
			return kinds, err
		}
		kinds = append(kinds, f)
	}
}

// recordPage returns the query for a page of the records of several kinds. It
// takes as many records of each kind as the page could need.
func (s *Store) recordPage(kinds []storage.RecordFilter) clause {
	parts := make([]clause, len(kinds))
	limit, offset := max(kinds[0].Limit, 0), max(kinds[0].Offset, 0)
	const newest = ` ORDER BY r.id DESC, r.tenant_id DESC, r.kind DESC LIMIT ? OFFSET ?`
	for i, f := range kinds {
		where, args := s.recordWhere(f)
		if !f.Before.IsZero() {
			where, args = where+` AND r.id < ?`, append(args, s.dialect.ID(f.Before))
		}
		if len(kinds) == 1 {
			return recordsWhere(where+newest, append(args, limit, offset))
		}
		parts[i] = recordsWhere(where+newest, append(args, limit+offset, 0))
	}
	union := all(parts, 0, false)
	return clause{`SELECT ` + recordColumns + ` FROM (` + union.text + `) r` + newest, append(union.args, limit, offset)}
}

// countRecords counts the records of a filter. It counts the records of one kind in
// several statements, because a tenant may have many.
func (s *Store) countRecords(ctx context.Context, f storage.RecordFilter) (total int, err error) {
	where, args := s.recordWhere(f)
	if f.Tenant.IsZero() || f.Name != "" || f.IDs != nil {
		return s.count(ctx, `SELECT count(*) FROM vault_records r WHERE `+where, args...)
	}
	last, left := storage.ID{}, clause{where, args}
	for n := lastRange; n == lastRange; total += n {
		n = 0
		err := s.each(ctx, `SELECT p.n, p.id FROM (
				SELECT row_number() OVER (ORDER BY r.id) AS n, r.id FROM vault_records r WHERE `+left.text+` ORDER BY r.id LIMIT ?
			) p ORDER BY p.n DESC LIMIT 1`, append(slices.Clip(left.args), lastRange),
			[]Field{{&n}, {&last}}, func() {})
		if err != nil {
			return 0, err
		}
		left = clause{where + ` AND r.id > ?`, append(slices.Clip(args), s.dialect.ID(last))}
	}
	return total, nil
}

// recordWhere returns the condition of a filter. A row whose key is not of ids is no record.
func (s *Store) recordWhere(f storage.RecordFilter) (string, []any) {
	where, args := []string{"length(r.id) = 16 AND length(r.tenant_id) = 16"}, []any(nil)
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	if !f.Tenant.IsZero() {
		add(`r.tenant_id = ?`, s.dialect.ID(f.Tenant))
	}
	if f.Kind != "" {
		add(`r.kind = ?`, f.Kind)
	}
	if f.IDs != nil {
		in, values := s.dialect.In("r.id", s.ids(f.IDs))
		add(in, values...)
	}
	if f.Name != "" {
		condition, pattern := nameIs(f.Name)
		add(condition, pattern)
	}
	return strings.Join(where, " AND "), args
}

// nameIs returns the condition that a name matches the wanted one, in which '*'
// matches any text.
func nameIs(wanted string) (condition, pattern string) {
	wanted = FoldName(wanted)
	if !strings.Contains(wanted, "*") {
		return `r.name_fold = ?`, wanted
	}
	parts := strings.FieldsFunc(wanted, func(r rune) bool { return r == '*' })
	pattern = strings.Join(parts, "*")
	if strings.HasPrefix(wanted, "*") {
		pattern = "*" + pattern
	}
	if strings.HasSuffix(wanted, "*") && len(parts) > 0 {
		pattern += "*"
	}
	// A backslash would need standard_conforming_strings on PostgreSQL.
	return `r.name_fold LIKE ? ESCAPE '!'`, strings.NewReplacer(`!`, `!!`, `%`, `!%`, `_`, `!_`, `*`, `%`).Replace(pattern)
}

// wholeTotal derives the number of rows on all pages from a page that contains
// the last row.
func wholeTotal(got, offset, limit int, before storage.ID) (int, bool) {
	offset = max(offset, 0)
	if !before.IsZero() || got >= limit || got == 0 && offset > 0 {
		return 0, false
	}
	return offset + got, true
}
