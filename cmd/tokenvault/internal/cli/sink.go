package cli

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-72ea4aab/vault"
)

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
					from, err := parseTime("since", *since, time.Now(), -1)
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
	{"OLDEST", func(s *vault.SinkStatus) string { return timeText(s.Oldest) }},
	{"LAST SUCCESS", func(s *vault.SinkStatus) string { return timeText(s.LastSuccess) }},
}

// changeSink returns an action that moves the position of the sink in the first
// argument, after a question.
func changeSink(question string, change func(*vault.Vault, context.Context, string) error) action {
	return inVault(func(c *call, v *vault.Vault) error {
		name := c.args[0]
		if err := c.confirm(fmt.Sprintf(question, printable(name))); err != nil {
			return err
		}
		return c.say(change(v, c.ctx, name), map[string]any{"name": name, "changed": true}, "Moved the position of %s in the log.", printable(name))
	})
}
