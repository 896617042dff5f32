package vault

import (
	"context"
	"errors"
	"maps"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/script"
)

// Bounds on what reactors and proxies carry.
const (
	maxCode               = 50_000 // characters
	maxConfiguration      = 25     // entries
	maxConfigurationKey   = 200    // characters
	maxConfigurationValue = 10_000 // characters
)

func checkCode(bad *form.Problems, path, code string) {
	if utf8.RuneCountInString(code) > maxCode {
		bad.Add(path, "must have at most %d characters", maxCode)
	}
}

func checkConfiguration(bad *form.Problems, configuration map[string]string) {
	if len(configuration) > maxConfiguration {
		bad.Add("configuration", "must have at most %d entries", maxConfiguration)
		return
	}
	for key, value := range configuration {
		if n := utf8.RuneCountInString(key); n < 1 || n > maxConfigurationKey {
			bad.Add("configuration", "must have names of 1 to %d characters", maxConfigurationKey)
		}
		if utf8.RuneCountInString(value) > maxConfigurationValue {
			bad.Add(jsonx.JoinName("configuration", key), "must have at most %d characters", maxConfigurationValue)
		}
	}
}

// checkScriptApplication checks the application that code is to act as.
func (op *operation) checkScriptApplication(ctx context.Context, bad *form.Problems, ref *ApplicationRef) error {
	if ref == nil {
		return nil
	}
	app, err := op.application(ctx, ref.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		bad.Add("application.id", "must be the id of an application of this tenant")
	case err != nil:
		return err
	case app.Type == Management:
		bad.Add("application.id", "must be a public or private application")
	}
	return nil
}

// loadCode lets the runtime look at code that is not the old one. What is wrong
// with it is told of its field. Without a runtime code is stored as it is; it
// cannot run either. The look may take as long as keys may be used unread, so
// they are read again after it.
func (op *operation) loadCode(ctx context.Context, field, name, code, old string) error {
	if op.v.cfg.Runtime == nil || code == "" || code == old {
		return nil
	}
	err := op.v.cfg.Runtime.Check(ctx, script.Program{Tenant: op.tenant.String(), Name: name, Source: code})
	if err == nil {
		return op.refresh(ctx)
	}
	failed, ok := errors.AsType[*script.Error](err)
	if !ok || failed.Messages["code"] == nil {
		return runtimeErr(err)
	}
	told := *failed
	told.Messages = maps.Clone(failed.Messages)
	delete(told.Messages, "code")
	told.Messages[field] = failed.Messages["code"]
	return &told
}
