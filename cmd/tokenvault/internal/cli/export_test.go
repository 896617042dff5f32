package cli

import "github.com/seed-72ea4aab/vault/script"

// LateRuntime returns the runtime of commands.
func LateRuntime() script.Runtime { return new(lateRuntime) }
