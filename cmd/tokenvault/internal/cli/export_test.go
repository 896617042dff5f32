package cli

import (
	"context"

	"github.com/seed-72ea4aab/vault/script"
)

// LateRuntime returns the runtime of commands.
func LateRuntime() script.Runtime { return new(lateRuntime) }

// RunAs is Run on a system with the given user name, which may be empty.
func RunAs(ctx context.Context, user string, args []string, getenv func(string) string, io Streams) int {
	return newProgram(getenv, io, func() string { return user }).main(ctx, args)
}
