package token

import "context"

type transformKey struct{}

// WithTransform returns a context in which whole tokens of expressions have the
// field transform, which states how much of the data they show.
func WithTransform(ctx context.Context) context.Context {
	return context.WithValue(ctx, transformKey{}, true)
}

// ShowsTransform reports whether the context is one of WithTransform.
func ShowsTransform(ctx context.Context) bool { return ctx.Value(transformKey{}) != nil }
