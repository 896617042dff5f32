package sqlstore

import (
	"iter"
	"slices"
)

// chunks yields the values in slices of at most size elements.
func chunks[T any](values []T, size int) iter.Seq[[]T] { return slices.Chunk(values, size) }

// anys returns the values as arguments of a query.
func anys[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}
