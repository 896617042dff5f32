package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// Tokens returns tokens by id.
func (s *Store) Tokens(ctx context.Context, id storage.ID, ids []string) ([]storage.Token, error) {
	return locked(ctx, s, func() ([]storage.Token, error) {
		var found []storage.Token
		for _, row := range s.db.tenant(id).tokens {
			if slices.Contains(ids, row.ID) {
				found = append(found, readToken(row))
			}
		}
		return found, nil
	})
}

// Duplicate returns the oldest token with the same content.
func (s *Store) Duplicate(ctx context.Context, id storage.ID, d storage.Duplicate) (*storage.Token, error) {
	return locked(ctx, s, func() (*storage.Token, error) {
		var oldest *storage.Token
		for ord, row := range s.db.tenant(id).tokens {
			same := row.Fingerprint == d.Fingerprint && row.Expression == d.Expression
			if !same || row.ID == d.Except || come(row.ExpiresAt, d.Now) {
				continue
			}
			if oldest == nil || bytes.Compare(ord[:], oldest.Ord[:]) < 0 {
				found := readToken(row)
				oldest = &found
			}
		}
		return oldest, nil
	})
}

// ListTokens returns a page of tokens.
func (s *Store) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	var rows []storage.Token
	for _, row := range s.db.tenant(f.Tenant).tokens {
		expired := !f.Now.IsZero() && come(row.ExpiresAt, f.Now)
		if !expired && within(row.Ord, &f) && Holds(f.Where, &row) {
			rows = append(rows, readToken(row))
		}
	}
	newestFirst(rows, func(row *storage.Token) storage.ID { return row.Ord })
	if f.OldestFirst {
		slices.Reverse(rows)
	}
	total := 0
	if f.Count {
		total = len(rows)
	}
	rows = page(rows, f.Offset, f.Limit)
	if tooLarge(rows, f.MaxBytes, func(row *storage.Token) int { return len(row.Body) + len(row.CVC) }) {
		return nil, 0, storage.ErrTooLarge
	}
	return rows, total, nil
}

// within reports whether a token comes after the place where a page begins.
func within(ord storage.ID, f *storage.TokenFilter) bool {
	if f.OldestFirst {
		return bytes.Compare(ord[:], f.Before[:]) > 0
	}
	return before(ord, f.Before)
}

// ContainerSets returns the sets that tokens of the tenant have ever been in.
func (s *Store) ContainerSets(ctx context.Context, id storage.ID) ([]storage.ContainerSet, error) {
	return locked(ctx, s, func() ([]storage.ContainerSet, error) {
		var sets []storage.ContainerSet
		for set, containers := range s.db.tenant(id).sets {
			sets = append(sets, storage.ContainerSet{Set: set, Containers: slices.Clone(containers)})
		}
		return sets, nil
	})
}

// Expired returns rows of each kind whose time has passed.
func (s *Store) Expired(ctx context.Context, f storage.ExpiredFilter) (storage.Expired, error) {
	return locked(ctx, s, func() (storage.Expired, error) {
		var e storage.Expired
		for _, t := range s.db.tenants {
			for _, row := range t.tokens {
				if come(row.ExpiresAt, f.Now) {
					e.Tokens = append(e.Tokens, readToken(row))
				} else if come(row.CVCExpiresAt, f.Now) {
					e.CVCs = append(e.CVCs, readToken(row))
				}
			}
			for _, row := range t.records {
				if come(row.ExpiresAt, f.Now) {
					e.Records = append(e.Records, copyRecord(row))
				}
			}
		}
		e.Tokens = expired(e.Tokens, f.Tokens, f.Limit, func(t *storage.Token) (time.Time, []byte) { return t.ExpiresAt, slices.Concat(t.Tenant[:], t.Ord[:]) })
		e.CVCs = expired(e.CVCs, f.CVCs, f.Limit, func(t *storage.Token) (time.Time, []byte) {
			return t.CVCExpiresAt, slices.Concat(t.Tenant[:], t.Ord[:])
		})
		e.Records = expired(e.Records, f.Records, f.Limit, func(r *storage.Record) (time.Time, []byte) {
			return r.ExpiresAt, slices.Concat(r.Tenant[:], []byte(r.Kind), r.ID[:])
		})
		return e, nil
	})
}

// expired returns the expired rows after a place.
func expired[T any](rows []T, after storage.ExpiryPlace, limit int, key func(*T) (time.Time, []byte)) []T {
	rows = slices.DeleteFunc(rows, func(row T) bool {
		at, _ := key(&row)
		return at.Before(after.From)
	})
	slices.SortFunc(rows, func(a, b T) int {
		atA, keyA := key(&a)
		atB, keyB := key(&b)
		return cmp.Or(atA.Compare(atB), bytes.Compare(keyA, keyB))
	})
	return page(rows, after.Skip, limit)
}

// ListLogs returns a page of the log.
func (s *Store) ListLogs(ctx context.Context, f storage.LogFilter) ([]storage.Log, int, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	var rows []storage.Log
	for _, row := range s.db.tenant(f.Tenant).logs {
		if (f.EntityType == "" || row.EntityType == f.EntityType) &&
			(f.EntityID == "" || row.EntityID == f.EntityID) &&
			(f.Operation == "" || row.Operation == f.Operation) &&
			(f.ActorID.IsZero() || row.ActorID == f.ActorID) &&
			(f.ActorType == "" || row.ActorType == f.ActorType) && before(row.ID, f.Before) &&
			afterStart(row.CreatedAt, f.From, false) && beforeEnd(row.CreatedAt, f.To, true) {
			rows = append(rows, row)
		}
	}
	newestFirst(rows, func(row *storage.Log) storage.ID { return row.ID })
	total := len(rows)
	if !f.Before.IsZero() {
		total = 0
	}
	return page(rows, f.Offset, f.Limit), total, nil
}

// LogTenants returns the tenants that have log entries from before a time.
func (s *Store) LogTenants(ctx context.Context, before time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	return tenantsWith(ctx, s, after, limit, func(t *tenant) bool {
		for _, entry := range t.logs {
			if entry.CreatedAt.Before(before) {
				return true
			}
		}
		return false
	})
}

// Records returns records by id.
func (s *Store) Records(ctx context.Context, id storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	return locked(ctx, s, func() ([]storage.Record, error) {
		var found []storage.Record
		for key, row := range s.db.tenant(id).records {
			if key.kind == kind && slices.Contains(ids, key.id) {
				found = append(found, copyRecord(row))
			}
		}
		return found, nil
	})
}

// Lookup returns the record with a key.
func (s *Store) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	return locked(ctx, s, func() (storage.Record, error) {
		ref, ok := s.db.lookups[key]
		if !ok {
			return storage.Record{}, storage.ErrNotFound
		}
		return copyRecord(s.db.tenant(ref.tenant).records[ref.recordID]), nil
	})
}

// ListRecords returns a page of records, of one tenant or of all.
func (s *Store) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	var rows []storage.Record
	for id, t := range s.db.tenants {
		if !f.Tenant.IsZero() && f.Tenant != id {
			continue
		}
		for _, row := range t.records {
			if wanted(&f, &row) {
				rows = append(rows, copyRecord(row))
			}
		}
	}
	newestFirst(rows, func(row *storage.Record) storage.ID { return row.ID })
	total := len(rows)
	rows = page(rows, f.Offset, f.Limit)
	if tooLarge(rows, f.MaxBytes, func(row *storage.Record) int { return len(row.Body) }) {
		return nil, 0, storage.ErrTooLarge
	}
	return rows, total, nil
}

// tooLarge reports whether several rows are larger than a limit, if that is not
// zero.
func tooLarge[T any](rows []T, most int, bytes func(*T) int) bool {
	held := 0
	for i := range rows {
		held += bytes(&rows[i])
	}
	return most > 0 && len(rows) > 1 && held > most
}

func wanted(f *storage.RecordFilter, row *storage.Record) bool {
	return (f.Kind == "" || row.Kind == f.Kind) &&
		(f.IDs == nil || slices.Contains(f.IDs, row.ID)) &&
		(f.Name == "" || nameMatches(f.Name, row.Name)) &&
		before(row.ID, f.Before)
}

func before(id, bound storage.ID) bool {
	return bound.IsZero() || bytes.Compare(id[:], bound[:]) < 0
}

func newestFirst[T any](rows []T, id func(*T) storage.ID) {
	slices.SortFunc(rows, func(a, b T) int {
		x, y := id(&a), id(&b)
		return bytes.Compare(y[:], x[:])
	})
}

func page[T any](rows []T, offset, limit int) []T {
	rows = rows[min(offset, len(rows)):]
	return rows[:min(limit, len(rows))]
}

// FollowLogs returns entries in the order in which they were written. A place
// is the number of the last entry before it and the earliest time of entries to
// return.
func (s *Store) FollowLogs(ctx context.Context, f storage.LogFollowing) ([]storage.Log, storage.LogPlace, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	at, since, err := s.db.begin(&f)
	if err != nil {
		return nil, nil, err
	}
	until := s.db.entries
	if f.Until != nil {
		if until, _, err = readPlace(f.Until); err != nil {
			return nil, nil, err
		}
	}
	t := s.db.tenant(f.Tenant)
	var page []storage.Log
	for _, w := range t.written {
		if w.n <= at || w.n > until {
			continue
		}
		if len(page) == f.Limit {
			return page, place(at, since), nil
		}
		at = w.n
		entry, ok := t.logs[w.id]
		if ok && entry.CreatedAt.UnixMicro() >= since {
			entry.Seq = w.seq
			page = append(page, entry)
		}
	}
	if f.Until != nil {
		return page, bytes.Clone(f.Until), nil
	}
	return page, place(at, since), nil
}

// begin returns where a follower begins.
func (db *DB) begin(f *storage.LogFollowing) (at uint64, since int64, err error) {
	switch {
	case f.After != nil:
		return readPlace(f.After)
	case f.From.IsZero():
		return db.entries, 0, nil
	default:
		return 0, f.From.UnixMicro(), nil
	}
}

func place(at uint64, since int64) storage.LogPlace {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, at), uint64(since))
}

func readPlace(p storage.LogPlace) (at uint64, since int64, err error) {
	if len(p) != 16 {
		return 0, 0, errors.New("model: this is no place")
	}
	return binary.BigEndian.Uint64(p), int64(binary.BigEndian.Uint64(p[8:])), nil
}

// Count counts row by row.
func (s *Store) Count(ctx context.Context, f storage.CountFilter) (storage.Counts, error) {
	return locked(ctx, s, func() (storage.Counts, error) {
		t := s.db.tenant(f.Tenant)
		n := storage.Counts{Logs: len(t.logs)}
		tokens := map[storage.TokenCount]int{}
		for _, token := range t.tokens {
			if !come(token.ExpiresAt, f.Now) {
				tokens[storage.TokenCount{Set: token.Set, Type: token.Type}]++
			}
		}
		for c, many := range tokens {
			c.N = many
			n.Tokens = append(n.Tokens, c)
		}
		for key, rec := range t.records {
			if key.kind == f.Kind && !come(rec.ExpiresAt, f.Now) && n.Records < f.UpTo {
				n.Records++
			}
		}
		for _, job := range t.jobs {
			switch {
			case n.Dead+n.Running+n.Waiting == f.UpTo:
			case job.Dead:
				n.Dead++
			case job.LeaseUntil.After(f.Now):
				n.Running++
			default:
				n.Waiting++
			}
		}
		return n, nil
	})
}
