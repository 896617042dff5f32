package cli

import (
	"context"
)

// RunAs is Run on a system with the given user name, which may be empty.
func RunAs(ctx context.Context, user string, args []string, getenv func(string) string, io Streams) int {
	return newProgram(getenv, io, func() string { return user }).main(ctx, args)
}
