package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

var recordColumns = "r.tenant_id, " + RecordRow.Without("name_fold").Names("r.")

const recordByHash = `vault_lookups l
	JOIN vault_records r ON r.tenant_id = l.tenant_id AND r.kind = l.kind AND r.id = l.id
	WHERE l.hash = ?`

// recordDest returns the destinations for scanning recordColumns.
func recordDest(r *storage.Record) []sql.Scanner {
	return []sql.Scanner{
		(*idColumn)(&r.Tenant), (*textColumn)(&r.Kind), (*idColumn)(&r.ID), (*textColumn)(&r.Name),
		(*keyColumn)(&r.Key), (*keyColumn)(&r.AltKey), (*timeColumn)(&r.ExpiresAt),
		(*intColumn)(&r.KeyVersion), (*blobColumn)(&r.Body), (*timeColumn)(&r.CreatedAt), (*int64Column)(&r.Rev),
	}
}

// Lookup implements [storage.RecordReader].
func (s *Store) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	if s.dialect.LookupInSteps {
		return s.lookupInSteps(ctx, key)
	}
	var r storage.Record
	ok, err := s.one(ctx, pointLookup, into(recordDest(&r)), key[:])
	switch {
	case err != nil:
		return storage.Record{}, err
	case !ok:
		return storage.Record{}, storage.ErrNotFound
	}
	return r, nil
}

// lookupInSteps first finds the tenant, and with it the server of the record.
// The record may get another key between the two steps.
func (s *Store) lookupInSteps(ctx context.Context, key storage.Key) (storage.Record, error) {
	var r storage.Record
	place := []sql.Scanner{(*idColumn)(&r.Tenant), (*textColumn)(&r.Kind), (*idColumn)(&r.ID)}
	known, err := s.one(ctx, pointKey, into(place), key[:])
	if err == nil && known {
		known, err = s.one(s.of(ctx, r.Tenant), pointRecord, into(recordDest(&r)), s.dialect.ID(r.Tenant), r.Kind, s.dialect.ID(r.ID))
	}
	switch {
	case err != nil:
		return storage.Record{}, err
	case !known || r.Key != key && r.AltKey != key:
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
		rs, err := s.records(ctx, 0, `r.tenant_id = ? AND r.kind = ? AND `+in,
			append([]any{s.dialect.ID(tenant), kind}, args...)...)
		if err != nil {
			return nil, err
		}
		found = append(found, rs...)
	}
	return found, nil
}

// ids returns the driver's values for the distinct ids.
func (s *Store) ids(ids []storage.ID) []any {
	seen := make(map[storage.ID]struct{}, len(ids))
	args := make([]any, 0, len(ids))
	for _, id := range ids {
		if _, ok := seen[id]; !ok {
			seen[id] = struct{}{}
			args = append(args, s.dialect.ID(id))
		}
	}
	return args
}

// records returns the records that match a condition, up to maxBytes if that is
// not zero.
func (s *Store) records(ctx context.Context, maxBytes int, where string, args ...any) ([]storage.Record, error) {
	var found []storage.Record
	var r storage.Record
	size := pageBytes{most: maxBytes}
	restart := func() { found, size = nil, pageBytes{most: maxBytes} }
	err := s.until(ctx, `SELECT `+recordColumns+` FROM vault_records r WHERE `+where, args, recordDest(&r), restart, func() error {
		found = append(found, r)
		return size.add(r.Body)
	})
	return found, err
}

// ListRecords implements [storage.RecordReader].
func (s *Store) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	if f.IDs != nil && len(f.IDs) == 0 {
		return nil, 0, s.ready(ctx)
	}
	ctx = s.of(ctx, f.Tenant)
	where, args := s.recordWhere(f)
	pageWhere, pageArgs := where, args[:len(args):len(args)]
	if !f.Before.IsZero() {
		pageWhere += ` AND r.id < ?`
		pageArgs = append(pageArgs, s.dialect.ID(f.Before))
	}
	page, err := s.records(ctx, f.MaxBytes, pageWhere+` ORDER BY r.id DESC, r.tenant_id DESC, r.kind DESC LIMIT ? OFFSET ?`,
		append(pageArgs, max(f.Limit, 0), max(f.Offset, 0))...)
	if err != nil {
		return nil, 0, err
	}
	if !f.Before.IsZero() {
		return page, 0, nil
	}
	if n, ok := wholeTotal(len(page), f.Offset, f.Limit, f.Before); ok {
		return page, n, nil
	}
	total, err := s.count(ctx, `SELECT count(*) FROM vault_records r WHERE `+where, args...)
	if err != nil {
		return nil, 0, err
	}
	return page, total, nil
}

func (s *Store) recordWhere(f storage.RecordFilter) (string, []any) {
	where, args := []string{"1 = 1"}, []any(nil)
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
	if f.KeyBelow != 0 {
		add(`r.key_version < ?`, f.KeyBelow)
	}
	return and(where), args
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
	return `r.name_fold LIKE ? ESCAPE '\'`,
		strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(pattern)
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
