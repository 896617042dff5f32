package script

import (
	"fmt"
	"io"
	"log/slog"
)

// The types below hold what tenants' code wrote or is made of. Printed with fmt,
// whatever the verb, or logged with slog, they show only names, kinds and statuses.

// LogValue returns the result of Error.
func (e Error) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Format prints the result of Error for every verb.
func (e Error) Format(f fmt.State, _ rune) { write(f, e.Error()) }

// LogValue shows the status.
func (r Response) LogValue() slog.Value { return slog.GroupValue(slog.Int("status", r.Status)) }

// Format prints what LogValue shows.
func (r Response) Format(f fmt.State, _ rune) {
	write(f, fmt.Sprintf("script.Response{status:%d}", r.Status))
}

// LogValue shows the level.
func (l Line) LogValue() slog.Value { return slog.GroupValue(slog.String("level", l.Level)) }

// Format prints what LogValue shows.
func (l Line) Format(f fmt.State, _ rune) { write(f, fmt.Sprintf("script.Line{level:%q}", l.Level)) }

// LogValue shows the tenant and the name.
func (p Program) LogValue() slog.Value {
	return slog.GroupValue(slog.String("tenant", p.Tenant), slog.String("name", p.Name))
}

// Format prints what LogValue shows.
func (p Program) Format(f fmt.State, _ rune) {
	write(f, fmt.Sprintf("script.Program{tenant:%q name:%q}", p.Tenant, p.Name))
}

func write(f fmt.State, text string) {
	_, _ = io.WriteString(f, text) // Format cannot return an error
}
