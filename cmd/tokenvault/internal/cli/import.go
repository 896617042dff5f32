package cli

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/rows"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// importFlags are the flags of an import.
type importFlags struct {
	rows.Options
	onDuplicate, state string
}

func (p *importFlags) flags(f *flag.FlagSet) {
	f.StringVar(&p.Type, "type", "", "`type` of rows without a type: card, bank, ...")
	f.Func("map", "`field=column` for CSV, separated by commas: id=ref,data.number=pan", p.Columns.Set)
	f.StringVar(&p.onDuplicate, "on-duplicate", "fail", "for a row whose id is taken: `fail`, skip or update")
	f.StringVar(&p.state, "resume", "", "`file` for the state of the import")
	f.StringVar(&p.Format, "format", "", "`jsonl` or csv, for any file name")
	f.StringVar(&p.Delimiter, "delimiter", "", "`character` between the columns of CSV; by default a comma, and a tab in .tsv")
	f.StringVar(&p.Identity, "identity", "", "`file` with an age identity that opens the file")
	f.StringVar(&p.PGPKey, "pgp-key", "", "`file` with an OpenPGP private key that opens the file")
}

func importTokens(c *call, p *importFlags) error {
	on := vault.OnDuplicate(p.onDuplicate)
	if !slices.Contains([]vault.OnDuplicate{vault.DuplicateFails, vault.DuplicateSkips, vault.DuplicateUpdates}, on) {
		return shell.Usagef("--on-duplicate takes fail, skip or update")
	}
	if err := shell.CheckType(p.Type); err != nil {
		return err
	}
	p.Stdin, p.Passphrase = c.In, func() string { return c.getenv(rows.PassphraseVariable) }
	src, err := rows.Open(c.args[0], &p.Options)
	if err != nil {
		return err
	}
	defer src.Close()
	o, err := c.open()
	if err != nil {
		return err
	}
	state, err := rows.OpenState(p.state, o.name, src)
	if err != nil {
		return err
	}
	run := &importing{c: c, src: src, state: state, bar: terminal.NewProgress(c.Err), first: state.Rows,
		resumed: state.Resumed && on == vault.DuplicateFails}
	opts := &vault.ImportOptions{OnDuplicate: on, Name: state.Name, FirstRow: state.Rows + 1, Resumed: state.Resumed}
	err = run.run(o.api, opts)
	run.bar.Clear()
	if err != nil {
		return err
	}
	return run.report()
}

// importing is the state of a running import.
type importing struct {
	c     *call
	src   *rows.Source
	state *rows.State
	bar   *terminal.Progress
	first int // rows done by earlier runs
	// resumed means that a row that exists was imported by the interrupted
	// run.
	resumed bool
}

// run imports all remaining rows.
func (r *importing) run(in vault.API, opts *vault.ImportOptions) error {
	if r.state.Done {
		return nil
	}
	if err := r.state.Save(); err != nil { // before the first row, because ids of rows may depend on the state
		return err
	}
	left, err := r.src.Rows(r.state.Rows)
	if err != nil {
		return err
	}
	saved := time.Now()
	for result, err := range in.Import(r.c.ctx, left, opts) {
		if err != nil {
			return errors.Join(r.failure(err), r.state.Save())
		}
		if err := r.count(result); err != nil {
			return err
		}
		if time.Since(saved) > saveEvery {
			if err := r.state.Save(); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	r.state.Done = true
	return r.state.Save()
}

// failure returns an error with the last row and how to continue.
func (r *importing) failure(err error) error {
	if r.c.ctx.Err() == nil {
		return fmt.Errorf("after row %d: %w", r.state.Rows, err)
	}
	stopped := &interrupted{what: fmt.Sprintf("after row %d", r.state.Rows)}
	if r.state.File != "" {
		stopped.hint = "run the same command again to continue"
	} else {
		stopped.hint = "the rows so far are imported; with --resume FILE, an import can be interrupted and continued"
	}
	return stopped
}

// saveEvery is how often the state is saved.
const saveEvery = time.Second

// count counts a row, and reports it if it failed.
func (r *importing) count(result vault.ImportResult) error {
	s := r.state
	s.Rows = result.Row
	switch result.Outcome {
	case vault.ImportCreated:
		s.Created++
	case vault.ImportUpdated:
		s.Updated++
	case vault.ImportSkipped:
		if r.resumed { // the previous run created it, but could not record that
			s.Found++
		} else {
			s.Skipped++
		}
	case vault.ImportFailed:
		s.Failed++
		return r.reportRow(result)
	}
	if done := s.Rows - r.first; done%progressEvery == 0 {
		r.progress(done)
	}
	return nil
}

// progressEvery is the number of rows between updates of the progress bar.
const progressEvery = 100

// progress shows the number of rows, the rate and the remaining time.
func (r *importing) progress(done int) {
	took := r.bar.Took().Seconds()
	rate := float64(done) / max(took, 0.001)
	end := fmt.Sprintf("%s rows  %s/s", shell.Grouped(r.state.Rows), shell.Grouped(int(rate)))
	part := r.src.Part()
	if part > 0 {
		left := time.Duration(took * (1 - part) / part * float64(time.Second))
		end += "  " + left.Round(time.Second).String() + " left"
	}
	r.bar.Show("Importing", part, end)
}

// reportRow prints why a row failed: its number, paths and rules, never a
// value.
func (r *importing) reportRow(result vault.ImportResult) error {
	if r.c.json {
		return shell.WriteJSON(r.c.Out, result)
	}
	r.bar.Erase()
	if len(result.Errors) == 0 {
		if result.Detail == "" && result.Err != nil {
			result.Detail = shell.FirstLine(result.Err)
		}
		result.Errors = map[string][]string{"": {result.Detail}}
	}
	for _, path := range slices.Sorted(maps.Keys(result.Errors)) {
		where := path + ": "
		if path == "" {
			where = ""
		}
		if _, err := fmt.Fprintf(r.c.Out, "row %d: %s%s\n", result.Row, where, strings.Join(result.Errors[path], " ")); err != nil {
			return err
		}
	}
	return nil
}

// report prints the totals of the import.
func (r *importing) report() error {
	s := r.state
	figures := map[string]any{"rows": s.Rows, "created": s.Created, "updated": s.Updated, "skipped": s.Skipped, "failed": s.Failed}
	found := ""
	if s.Found > 0 {
		figures["found"] = s.Found
		found = fmt.Sprintf(", %s found from the interrupted run", shell.Grouped(s.Found))
	}
	err := r.c.say(nil, figures, "Imported %s: %s created, %s updated, %s skipped, %s failed%s.", shell.Counted(s.Rows, "row"),
		shell.Grouped(s.Created), shell.Grouped(s.Updated), shell.Grouped(s.Skipped), shell.Grouped(s.Failed), found)
	if err == nil && s.Failed > 0 {
		return errReported
	}
	return err
}

func moveCommands() []*command {
	return []*command{
		{
			name: "import", args: "FILE|-", min: 1, max: 1, reach: bothWays, summary: "create tokens from a file",
			about: `The file holds JSON lines, each the body of POST /tokens, or CSV with a header.
				--map assigns columns to fields: --map id=ref,data.number=pan. Without it,
				columns have the names of fields. The file name determines the format: .jsonl,
				.ndjson, .json, .csv or .tsv. Another ending may follow: .gz for gzip, .age for
				a file of tokenvault export (see --identity), and .pgp, .gpg or .asc for OpenPGP
				(see --pgp-key; TOKENVAULT_PGP_PASSPHRASE holds the passphrase of the key). -
				reads JSON lines from standard input, unless --format names another format.

				A row that cannot be imported is reported with its number and the broken rules.
				It does not stop the import, but the exit status is 1. With --resume the import
				keeps its state in a file. After an interruption, run the same command again: it
				continues without duplicates. Over HTTP the application of TOKENVAULT_API_KEY
				creates the tokens.`,
			example: "tokenvault import cards.csv --type card --map id=ref,data.number=pan,data.expiration_month=month --resume cards.state --tenant Acme",
			setup:   flagged((*importFlags).flags, importTokens),
		},
		{
			name: "export", args: "[FILE|-]", max: 1, reach: inProcess, asks: true, summary: "write tokens to a file, sealed",
			about: `Writes tokens as JSON lines for tokenvault import, oldest first, sealed with age
				for the recipients. With --clear it writes plaintext, after a confirmation on
				the terminal or with --yes. The audit log gets a use of each token. A cvc is not
				exported. Without a FILE it writes to standard output. age-keygen creates an
				identity and prints its recipient.`,
			example: "tokenvault export tokens.jsonl.age --recipient age1... --filter 'type:card' --tenant Acme",
			setup:   flagged((*exportFlags).flags, exportTokens),
		},
	}
}
