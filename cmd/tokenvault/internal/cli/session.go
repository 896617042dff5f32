package cli

import (
	"flag"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

func sessionCommands() []*command {
	return []*command{
		{
			name: "session list", reach: bothWays, summary: "list active sessions, newest first",
			example: "tokenvault session list --tenant Acme",
			setup: func(*flag.FlagSet) action {
				return func(c *call) error {
					o, err := c.open()
					if err != nil {
						return err
					}
					return printAll(c, o.api.AllSessions(c.ctx), sessionColumns)
				}
			},
		},
		{
			name: "session end", args: "ID", min: 1, max: 1, reach: bothWays, summary: "end a session",
			about:   "Its key stops working within a second on every server.",
			example: "tokenvault session end 01980000-0000-7000-8000-000000000001 --tenant Acme",
			setup:   func(*flag.FlagSet) action { return endSession },
		},
	}
}

var sessionColumns = []column[*vault.SessionInfo]{
	{"ID", func(s *vault.SessionInfo) string { return s.ID.String() }},
	{"APPLICATION", func(s *vault.SessionInfo) string { return nameText(s.ApplicationID.String(), s.Unreadable) }},
	{"PERMISSIONS", func(s *vault.SessionInfo) string { return joined(s.Permissions) }},
	{"CREATED", func(s *vault.SessionInfo) string { return timeText(s.CreatedAt) }},
	{"EXPIRES", func(s *vault.SessionInfo) string { return timeText(s.ExpiresAt) }},
}

func endSession(c *call) error {
	id, err := uuid.Parse(c.args[0])
	if err != nil {
		return usagef("the id of a session is a UUID; tokenvault session list shows them")
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	if err := o.api.DeleteSession(c.ctx, id); err != nil {
		return err
	}
	return c.say(map[string]any{"id": id, "ended": true}, "Ended the session %s.", id)
}
