//go:build !unix

package workers

import (
	"context"
	"fmt"
	"runtime"
)

// starter always fails, because workers require Unix.
type starter struct{}

func newStarter(Options) *starter { return &starter{} }

func (*starter) close() {}

func (*starter) start(context.Context) (*worker, error) {
	return nil, fmt.Errorf("%w: not supported on %s; NewInProcess runs code without isolation", ErrWorker, runtime.GOOS)
}

func becomeWorker() {}
