package storage_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/storage"
)

// listed has records with descending ids, of which at most two fit into a page.
type listed struct {
	storage.RecordReader
	ids []byte
	err error
}

func (l *listed) ListRecords(_ context.Context, f storage.RecordFilter) (page []storage.Record, total int, err error) {
	if f.Limit > 2 {
		return nil, 0, storage.ErrTooLarge
	}
	for _, id := range l.ids {
		if rec := (storage.Record{ID: storage.ID{id}}); (f.Before.IsZero() || id < f.Before[0]) && len(page) < f.Limit {
			page = append(page, rec)
		}
	}
	return page, 0, l.err
}

func TestAllRecords(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		from listed
		most int // records after which the caller stops
		want []byte
	}{
		"every record":    {listed{ids: []byte{9, 7, 5, 3, 1}}, 9, []byte{9, 7, 5, 3, 1}},
		"none":            {listed{}, 9, nil},
		"an early end":    {listed{ids: []byte{9, 7, 5}}, 1, []byte{9}},
		"an error at end": {listed{ids: []byte{9}, err: broken}, 9, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []byte
			var failed error
			for rec, err := range storage.AllRecords(t.Context(), &test.from, storage.RecordFilter{Limit: 8}) {
				if failed = err; err == nil {
					got = append(got, rec.ID[0])
				}
				if len(got) == test.most {
					break
				}
			}
			if diff := cmp.Diff(test.want, slices.Clip(got)); diff != "" || !errors.Is(failed, test.from.err) {
				t.Errorf("the error %v, and records (-want +got):\n%s", failed, diff)
			}
		})
	}
}
