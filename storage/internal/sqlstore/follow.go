package sqlstore

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// logDest returns the destinations for scanning logColumns.
func logDest(e *storage.Log) []Field {
	return []Field{
		{&e.ID}, {&e.CreatedAt}, {&e.ActorID}, {&e.ActorType}, {&e.EntityType}, {&e.EntityID}, {&e.Operation}, {&e.Message},
		{(*optionalText)(&e.ActorName)}, {(*optionalText)(&e.Origin)}, {(*mac)(&e.Mac)},
	}
}

// Followed returns log entries. number is the column with the number of their
// transaction. where is a condition on vault_logs l, followed by an order and a
// limit.
func Followed(ctx context.Context, s *Store, number, where string, args ...any) ([]storage.Log, error) {
	return s.followed(ctx, number, `vault_logs l WHERE `+where, args)
}

func (s *Store) followed(ctx context.Context, number, from string, args []any) ([]storage.Log, error) {
	var page []storage.Log
	var e storage.Log
	dest := append(logDest(&e), Field{&e.Seq})
	err := s.prepares().each(ctx, `SELECT `+logColumns+`, `+number+` FROM `+from, args, dest, func() { page = append(page, e) })
	return page, err
}

// FollowedIDs is like Followed, for ids and numbers only. CreatedAt is the time in
// the id.
func FollowedIDs(ctx context.Context, s *Store, number, where string, args ...any) ([]storage.Log, error) {
	var page []storage.Log
	var e storage.Log
	dest := []Field{{&e.ID}, {&e.Seq}}
	err := s.prepares().each(ctx, `SELECT l.id, `+number+` FROM vault_logs l WHERE `+where, args, dest, func() {
		page = append(page, followedID(e.ID, e.Seq))
	})
	return page, err
}

// PackedIDs is FollowedIDs for PostgreSQL. It reads all ids as one value, which takes
// a tenth of the process's time for as many rows.
func PackedIDs(ctx context.Context, s *Store, number, where string, args ...any) ([]storage.Log, error) {
	var packed []byte
	var others int64
	err := s.prepares().each(ctx, `SELECT string_agg(i.id || int8send(i.n), ''), count(*) FILTER (WHERE octet_length(i.id) <> 16 OR i.n IS NULL)
		FROM (SELECT l.id, `+number+` AS n FROM vault_logs l WHERE `+where+`) i`,
		args, []Field{{&packed}, {&others}}, func() {})
	if err == nil && others > 0 {
		err = storage.ErrMalformed
	}
	if err != nil {
		return nil, err
	}
	const size = len(storage.ID{}) + 8
	page := make([]storage.Log, 0, len(packed)/size)
	for one := range slices.Chunk(packed, size) {
		page = append(page, followedID(storage.ID(one[:size-8]), int64(binary.BigEndian.Uint64(one[size-8:]))))
	}
	return page, nil
}

func followedID(id storage.ID, number int64) storage.Log {
	return storage.Log{ID: id, Seq: number, CreatedAt: time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))}
}

// Number runs a query that returns one number.
func Number(ctx context.Context, s *Store, query string, args ...any) (int64, error) {
	n, err := s.count(ctx, query, args...)
	return int64(n), err
}

// ErrPlace means that a place in the log cannot be decoded.
var ErrPlace = errors.New("storage: this is not a place in the log")

// EncodePlace encodes a place in the log, which has a fixed size.
func EncodePlace(place any) storage.LogPlace {
	b, err := binary.Append(nil, binary.BigEndian, place)
	if err != nil {
		panic(err) // unreachable: places have a fixed size
	}
	return b
}

// DecodePlace decodes the result of EncodePlace.
func DecodePlace(b storage.LogPlace, place any) error {
	if n, err := binary.Decode(b, binary.BigEndian, place); err != nil || n != len(b) {
		return ErrPlace
	}
	return nil
}

// FirstID returns an id that is at most the id of any entry created at a time
// or later. The timestamp of an entry's id is the millisecond of its creation.
func FirstID(micros int64) storage.ID { return idOfMillis(max(micros/perMilli, 0)) }
