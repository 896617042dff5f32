package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
)

func logCommands() []*command {
	return []*command{
		{
			name: "log list", reach: bothWays, summary: "list entries of the audit log, newest first",
			about: `--since and --until take a time such as 2026-01-31T09:00:00Z, a date, or an age:
				90m, 24h, 7d.`,
			example: "tokenvault log list --since 24h --operation delete --tenant Acme",
			setup:   flagged((*logFlags).flags, listLogs),
		},
		{
			name: "log follow", reach: bothWays, summary: "print new entries of the audit log, as JSON lines",
			about: `Misses nothing, not even entries of transactions that commit late. It starts
				after the cursor in --cursor-file. Without such a file it starts at --since, and
				without --since with new entries. It saves the cursor after it has printed the
				entries, so a crash repeats only entries since the last save. Use the id of an
				entry to detect duplicates. Interrupt it to stop.`,
			example: "tokenvault log follow --cursor-file siem.cursor --since 24h --tenant Acme",
			setup: func(f *flag.FlagSet) action {
				since := f.String("since", "", "`time` of the first entry, if there is no cursor")
				file := f.String("cursor-file", "", "`file` for the cursor")
				return func(c *call) error { return followLogs(c, *since, *file) }
			},
		},
	}
}

var logColumns = []column[*vault.LogEntry]{
	{"TIME", func(e *vault.LogEntry) string { return shell.TimeText(e.CreatedAt) }},
	{"OPERATION", func(e *vault.LogEntry) string { return string(e.Operation) }},
	{"ENTITY", func(e *vault.LogEntry) string { return e.EntityType }},
	{"ENTITY ID", func(e *vault.LogEntry) string { return e.EntityID }},
	{"ACTOR", func(e *vault.LogEntry) string { return cmp.Or(e.ActorName, idText(e.ActorID)) }},
	{"MESSAGE", func(e *vault.LogEntry) string { return e.Message }},
}

// logFlags choose entries.
type logFlags struct {
	entityType, entityID, operation, actor, since, until string
	limit                                                int
}

func (p *logFlags) flags(f *flag.FlagSet) {
	f.StringVar(&p.entityType, "entity-type", "", "only entries about this `type`: card, application, ...")
	f.StringVar(&p.entityID, "entity-id", "", "only entries about the entity with this `id`")
	f.StringVar(&p.operation, "operation", "", "only this `operation`: create, read, use, update, delete, ...")
	f.StringVar(&p.actor, "actor-id", "", "only entries of the application or user with this `id`")
	f.StringVar(&p.since, "since", "", "only entries from this `time` on")
	f.StringVar(&p.until, "until", "", "only entries before this `time`")
	f.IntVar(&p.limit, "limit", defaultLimit, "at most this `number` of entries; 0 for all")
}

func (p *logFlags) params(now time.Time) (vault.ListLogsParams, error) {
	list := vault.ListLogsParams{EntityType: p.entityType, EntityID: p.entityID, Operation: vault.LogOperation(p.operation)}
	var err error
	if list.StartDate, err = shell.ParseTime("since", p.since, now, -1); err != nil {
		return list, err
	}
	if list.EndDate, err = shell.ParseTime("until", p.until, now, -1); err != nil {
		return list, err
	}
	if p.actor != "" {
		if list.ActorID, err = uuid.Parse(p.actor); err != nil {
			return list, shell.Usagef("--actor-id takes the id of an application or a user, a UUID")
		}
	}
	return list, nil
}

func listLogs(c *call, p *logFlags) error {
	params, err := p.params(time.Now())
	if err != nil {
		return err
	}
	return inTenant(func(c *call, o *opened) error {
		return printAll(c, limited(c, o.api.AllLogs(c.ctx, params), p.limit), logColumns)
	})(c)
}

func followLogs(c *call, since, file string) error {
	at, err := shell.ParseTime("since", since, time.Now(), -1)
	if err != nil {
		return err
	}
	cursor, err := readCursor(file)
	if err != nil {
		return err
	}
	if cursor == "" && !at.IsZero() {
		cursor = vault.LogsSince(at)
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.Out)
	for batch, err := range o.api.FollowLogs(c.ctx, cursor) {
		if err != nil {
			if c.ctx.Err() != nil && errors.Is(err, c.ctx.Err()) {
				return nil // it was interrupted, as following always ends
			}
			return err
		}
		for i := range batch.Data {
			if err := shell.WriteJSON(out, &batch.Data[i]); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if file == "" {
			continue
		}
		if err := serve.ReplaceFile(file, strings.NewReader(batch.Cursor+"\n").WriteTo); err != nil {
			return err
		}
	}
	return nil
}

func readCursor(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

func sinkCommands() []*command {
	return []*command{
		{
			name: "sink list", reach: inProcess, summary: "list the destinations of the log, and how far behind they are",
			example: "tokenvault sink list --json",
			act: inVault(func(c *call, v *vault.Vault) error {
				return printAll(c, each(v.ListSinks(c.ctx)), sinkColumns)
			}),
		},
		{
			name: "sink reset", args: "NAME", min: 1, max: 1, reach: inProcess, asks: true, summary: "send log entries to a destination again",
			about: `Servers send all entries again, or the entries since a time. Use the id of an
				entry to detect duplicates.`,
			example: "tokenvault sink reset siem --since 24h --yes",
			setup: func(f *flag.FlagSet) action {
				since := f.String("since", "", "`time` of the first entry, such as 2030-01-31T00:00:00Z, or a duration before now, such as 24h; by default all")
				return func(c *call) error {
					from, err := shell.ParseTime("since", *since, time.Now(), -1)
					if err != nil {
						return err
					}
					return changeSink("Send log entries to %s again?", func(v *vault.Vault, ctx context.Context, name string) error {
						return v.ResetSink(ctx, name, from)
					})(c)
				}
			},
		},
		{
			name: "sink skip", args: "NAME", min: 1, max: 1, reach: inProcess, asks: true, summary: "skip the log entries that wait for a destination",
			about:   "The destination never gets them, unless tokenvault sink reset sends them again.",
			example: "tokenvault sink skip siem --yes",
			act:     changeSink("Skip the entries that wait for %s?", (*vault.Vault).SkipSink),
		},
	}
}

var sinkColumns = []column[*vault.SinkStatus]{
	{"NAME", func(s *vault.SinkStatus) string { return s.Name }},
	{"FORMAT", func(s *vault.SinkStatus) string { return s.Format }},
	{"SENT", func(s *vault.SinkStatus) string { return strconv.FormatInt(s.Sent, 10) }},
	{"REFUSED", func(s *vault.SinkStatus) string { return strconv.FormatInt(s.Refused, 10) }},
	{"BEHIND", func(s *vault.SinkStatus) string { return strconv.Itoa(s.Behind) }},
	{"OLDEST", func(s *vault.SinkStatus) string { return shell.TimeText(s.Oldest) }},
	{"LAST SUCCESS", func(s *vault.SinkStatus) string { return shell.TimeText(s.LastSuccess) }},
}

// changeSink returns an action that moves the position of the sink in the first
// argument, after a question.
func changeSink(question string, change func(*vault.Vault, context.Context, string) error) action {
	return inVault(func(c *call, v *vault.Vault) error {
		name := c.args[0]
		if err := c.confirm(fmt.Sprintf(question, shell.Printable(name))); err != nil {
			return err
		}
		return c.say(change(v, c.ctx, name), map[string]any{"name": name, "changed": true}, "Moved the position of %s in the log.", shell.Printable(name))
	})
}
