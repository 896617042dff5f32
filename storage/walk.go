package storage

import (
	"context"
	"errors"
	"iter"
)

// AllRecords iterates over all records that a filter selects, newest first. It
// reads Limit records at a time, and fewer where they exceed MaxBytes. An error ends
// the iteration.
func AllRecords(ctx context.Context, from RecordReader, f RecordFilter) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for most := f.Limit; ; {
			recs, _, err := from.ListRecords(ctx, f)
			switch {
			case errors.Is(err, ErrTooLarge) && f.Limit > 1:
				f.Limit /= 2
				continue
			case err != nil:
				yield(nil, err)
				return
			}
			for i := range recs {
				if !yield(&recs[i], nil) {
					return
				}
			}
			if len(recs) < f.Limit {
				return
			}
			f.Before, f.Limit = recs[len(recs)-1].ID, min(2*f.Limit, most)
		}
	}
}
