package cli

import (
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

func eraseCommands() []*command {
	return []*command{{
		name: "erase", args: "QUERY|-", min: 0, max: 1, reach: bothWays, trees: foundTrees, asks: true, summary: "erase tokens, by a query or by id",
		about: `Deletes the tokens, and stored responses, undelivered results and pending jobs
			that use them. The log gets an entry for each token, and one for the erasure
			with the reason: name a case or a ticket, not a person. You can stop it at any
			time and run it again to continue. It exits with 1 if tokens remain that the key
			may search but not delete. Use - for a query with sensitive data, to read it
			from standard input. With --id and no query, it erases the tokens with these
			ids.

			With --again and no query, it withdraws what was withdrawn in any tenant between
			a backup and its restore: it erases tokens that were erased or deleted, deletes
			applications, proxies and reactors, ends sessions, and replaces keys that were
			regenerated, whose owners then need a new key. It suspends applications,
			proxies and reactors that were changed, and lists them: their use is a 403 until
			--keep confirms them. FILE is a bundle of tokenvault log evidence, or the
			audit log as JSON lines, from a log sink or from tokenvault log list --json.
			Pass all files in one call. --keep also works without them.`,
		example: `tokenvault erase 'metadata.customer:42' --reason 'case 4711' --tenant Acme`,
		setup: func(f *flag.FlagSet) action {
			reason := f.String("reason", "", "`text` for the log")
			dry := f.Bool("dry-run", false, "print the number of tokens, and erase none")
			var again, ids, keep texts
			f.Func("id", "`id` of a token; repeatable", ids.set)
			f.Func("again", "`file` with the log since the backup; repeatable", again.set)
			f.Func("keep", "`id` of a suspended application, proxy or reactor that you confirm; repeatable", keep.set)
			return func(c *call) error {
				switch ways := []bool{len(again)+len(keep) > 0, len(ids) > 0, len(c.args) > 0}; {
				case slices.Equal(ways, []bool{true, false, false}):
					return eraseAgain(c, again, keep, *reason, *dry)
				case slices.Equal(ways, []bool{false, true, false}), slices.Equal(ways, []bool{false, false, true}):
					return eraseTokens(c, ids, *reason, *dry)
				default:
					return shell.Usagef("give a query, or --id, or --again and --keep")
				}
			}
		},
	}}
}

func eraseTokens(c *call, ids []string, reason string, dry bool) error {
	if reason == "" && !dry {
		return shell.Usagef("--reason is required")
	}
	p := vault.EraseParams{IDs: ids, Reason: reason}
	var err error
	if len(ids) == 0 {
		if p.Query, err = c.textOrInput(c.args[0]); err != nil {
			return err
		}
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	if dry || c.canAsk() { // without a terminal, --reason counts as confirmation
		if err := lookBeforeErase(c, o.api, p, dry); err != nil || dry {
			return err
		}
	}
	return eraseAll(c, o.api, p)
}

// lookBeforeErase prints the number of tokens to erase if dry is set. Otherwise it
// lets the user confirm the erasure.
func lookBeforeErase(c *call, api vault.API, p vault.EraseParams, dry bool) error {
	page, err := toErase(c, api, p)
	if err != nil {
		return err
	}
	found, more := page.Pagination.TotalItems, ""
	if page.Pagination.TotalIsCapped {
		more = " or more"
	}
	switch {
	case !dry:
		return c.confirm(fmt.Sprintf("Erase %s%s?", shell.Counted(found, "token"), more))
	case p.Query == "":
		return c.say(nil, map[string]any{"found": found}, "The ids find %s.", shell.Counted(found, "token"))
	default:
		return c.say(nil, map[string]any{"found": found}, "The query finds %s%s.", shell.Counted(found, "token"), more)
	}
}

// toErase returns a page with the number of tokens to erase.
func toErase(c *call, api vault.API, p vault.EraseParams) (*vault.Page[vault.Token], error) {
	one := vault.PageParams{Size: 1}
	if p.Query == "" {
		return api.ListTokens(c.ctx, vault.ListTokensParams{IDs: p.IDs, PageParams: one})
	}
	return api.SearchTokens(c.ctx, vault.SearchTokensParams{Query: p.Query, PageParams: one})
}

// eraseAll repeats an erasure until a call erases nothing.
func eraseAll(c *call, api vault.API, p vault.EraseParams) error {
	for {
		done, err := api.EraseTokens(c.ctx, p)
		if err != nil {
			return err
		}
		fields := map[string]any{"id": done.ID, "reason": done.Reason, "count": done.Count, "left": done.Left, "created_at": done.CreatedAt}
		if err := c.say(nil, fields, "Erased %s (erasure %s).", shell.Counted(done.Count, "token"), done.ID); err != nil {
			return err
		}
		switch {
		case done.Left == 0:
			return nil
		case done.Count == 0:
			return fmt.Errorf("%s may not be erased with this key, or cannot be read", shell.Counted(done.Left, "token"))
		}
	}
}

// eraseAgain withdraws what a restore brought back.
func eraseAgain(c *call, paths, keep []string, reason string, dry bool) error {
	p := vault.EraseAgainParams{Reason: reason, DryRun: dry}
	for _, text := range keep {
		id, err := uuid.Parse(text)
		if err != nil {
			return shell.Usagef("--keep needs the id of an application, a proxy or a reactor")
		}
		p.Keep = append(p.Keep, id)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		p.Files = append(p.Files, file)
	}
	o, err := c.openVault()
	if err != nil {
		return err
	}
	if !dry && c.canAsk() {
		if err := c.confirm("Withdraw again what the files say was withdrawn?"); err != nil {
			return err
		}
	}
	done, err := o.vault.EraseAgain(c.ctx, p)
	if err != nil {
		return err
	}
	text := "Of %s, %d existed again and were erased. Withdrew %s, %s, %s, %s and %s again."
	if dry {
		text = "Of %s, %d exist again. To withdraw again: %s, %s, %s, %s and %s."
	}
	fields := map[string]any{"erased": done.Erased, "count": done.Count, "applications": done.Applications, "keys": done.Keys, "sessions": done.Sessions,
		"proxies": done.Proxies, "reactors": done.Reactors, "suspended": done.Suspended, "kept": done.Kept}
	proxies := "1 proxy"
	if done.Proxies != 1 {
		proxies = fmt.Sprint(done.Proxies, " proxies")
	}
	for _, h := range done.Suspended {
		c.inform("Suspended: %s %s of tenant %s. Compare it with the log, and confirm it with --keep %s.", h.Type, h.ID, h.TenantID, h.ID)
	}
	for _, h := range done.Kept {
		c.inform("Confirmed: %s %s of tenant %s.", h.Type, h.ID, h.TenantID)
	}
	return c.say(nil, fields, text, shell.Counted(done.Erased, "erased token"), done.Count,
		shell.Counted(done.Applications, "application"), shell.Counted(done.Keys, "key"), shell.Counted(done.Sessions, "session"),
		proxies, shell.Counted(done.Reactors, "reactor"))
}
