package cli

import (
	"flag"
	"fmt"
	"os"

	"github.com/seed-72ea4aab/vault"
)

func eraseCommands() []*command {
	return []*command{{
		name: "erase", args: "QUERY|-", min: 0, max: 1, reach: bothWays, asks: true, summary: "erase all tokens that a query finds",
		about: `Deletes the tokens, and stored responses, undelivered results and pending jobs
			that use them. The log gets an entry for each token, and one for the erasure
			with the reason: name a case or a ticket, not a person. You can stop it at any
			time and run it again to continue. It exits with 1 if tokens remain that the key
			may search but not delete. Use - for a query with sensitive data, to read it
			from standard input.

			With --again and no query, it erases the tokens of all tenants that were erased
			between a backup and its restore. FILE is a bundle of tokenvault log evidence,
			or the audit log as JSON lines, from a log sink or from tokenvault log list
			--json. Pass all files in one call.`,
		example: `tokenvault erase 'metadata.customer:42' --reason 'case 4711' --tenant Acme`,
		setup: func(f *flag.FlagSet) action {
			reason := f.String("reason", "", "`text` for the log")
			dry := f.Bool("dry-run", false, "print the number of tokens, and erase none")
			var again texts
			f.Var(&again, "again", "`file` with the erasures since the backup; repeatable")
			return func(c *call) error {
				switch {
				case len(again) > 0 && len(c.args) == 0:
					return eraseAgain(c, again, *reason, *dry)
				case len(again) == 0 && len(c.args) == 1:
					return eraseTokens(c, *reason, *dry)
				default:
					return usagef("give a query, or --again")
				}
			}
		},
	}}
}

func eraseTokens(c *call, reason string, dry bool) error {
	if reason == "" && !dry {
		return usagef("--reason is required")
	}
	query, err := c.textOrInput(c.args[0])
	if err != nil {
		return err
	}
	c.looks = true
	o, err := c.open()
	if err != nil {
		return err
	}
	page, err := o.api.SearchTokens(c.ctx, vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Size: 1}})
	if err != nil {
		return err
	}
	found, more := page.Pagination.TotalItems, ""
	if page.Pagination.TotalIsCapped {
		more = " or more"
	}
	if dry {
		return c.say(map[string]any{"found": found}, "The query finds %s%s.", counted(found, "token"), more)
	}
	if c.canAsk() { // without a terminal, --reason counts as confirmation
		if err := c.confirm(fmt.Sprintf("Erase %s%s?", counted(found, "token"), more)); err != nil {
			return err
		}
	}
	return eraseAll(c, o.api, vault.EraseParams{Query: query, Reason: reason})
}

// eraseAll repeats an erasure until a call erases nothing.
func eraseAll(c *call, api vault.EraseAPI, p vault.EraseParams) error {
	for {
		done, err := api.EraseTokens(c.ctx, p)
		if err != nil {
			return err
		}
		fields := map[string]any{"id": done.ID, "reason": done.Reason, "count": done.Count, "left": done.Left, "created_at": done.CreatedAt}
		if err := c.say(fields, "Erased %s (erasure %s).", counted(done.Count, "token"), done.ID); err != nil {
			return err
		}
		switch {
		case done.Left == 0:
			return nil
		case done.Count == 0:
			return fmt.Errorf("%s may not be erased with this key, or cannot be read", counted(done.Left, "token"))
		}
	}
}

// eraseAgain applies erasures that a restore has undone.
func eraseAgain(c *call, paths []string, reason string, dry bool) error {
	p := vault.EraseAgainParams{Reason: reason, DryRun: dry}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		p.Files = append(p.Files, file)
	}
	c.looks = true
	o, err := c.openVault()
	if err != nil {
		return err
	}
	if !dry && c.canAsk() {
		if err := c.confirm("Erase the tokens in the files again?"); err != nil {
			return err
		}
	}
	done, err := o.vault.EraseAgain(c.ctx, p)
	if err != nil {
		return err
	}
	text := "Of %s, %d existed again and were erased."
	if dry {
		text = "Of %s, %d exist again."
	}
	return c.say(map[string]any{"erased": done.Erased, "count": done.Count}, text, counted(done.Erased, "erased token"), done.Count)
}
