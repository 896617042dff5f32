package runs

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// The first attempt is part of the run only if it follows the run at once.
func TestPromptDelivery(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		after    time.Duration
		attempts int
		retried  bool
		want     bool
	}{
		"at once":     {time.Second, 0, false, true},
		"held up":     {time.Hour, 0, false, false},
		"tried again": {time.Second, 1, false, false},
		"given up":    {time.Second, 0, true, false},
	} {
		j := &leased{Op: &core.Op{Now: ended.Add(c.after)}, row: storage.Job{Attempts: c.attempts}, react: Job{Ended: ended, Retried: c.retried}}
		if j.isPrompt() != c.want {
			t.Errorf("%s: prompt is %v", name, !c.want)
		}
	}
}

// Running code sees errors that are meant for callers, and nothing of other
// errors.
func TestHostErrors(t *testing.T) {
	t.Parallel()
	fields := map[string][]string{"data": {"is required"}}
	own := &script.HostError{Code: "EACCES", Message: "no"}
	for name, c := range map[string]struct {
		err  error
		want *script.HostError
	}{
		"the host's own": {fmt.Errorf("fetch: %w", own), own},
		"of code":        {&script.Error{Kind: script.Thrown, Status: 402, Title: "No Money", Messages: fields}, &script.HostError{Status: 402, Message: "No Money", Errors: fields}},
		"of fields":      {&fault.Invalid{Fields: fields}, &script.HostError{Status: 400, Message: "One or more validation errors occurred.", Errors: fields}},
		"of a sentinel":  {fault.ErrNoToken, &script.HostError{Status: 404, Message: "Token not found."}},
		"of the runtime": {script.ErrBusy, &script.HostError{Status: 429, Message: "Too many requests."}},
		"of the machine": {errors.New("secret of the database"), &script.HostError{Status: 500, Message: "the operation failed"}},
	} {
		must.Same(t, name, c.want, HostError(c.err))
	}
}
