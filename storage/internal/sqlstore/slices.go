package sqlstore

import (
	"iter"
	"slices"
)

// chunks yields the values in pieces of at most size; nothing when there are none.
func chunks[T any](values []T, size int) iter.Seq[[]T] { return slices.Chunk(values, size) }

// anys are the values as arguments of a query.
func anys[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}
