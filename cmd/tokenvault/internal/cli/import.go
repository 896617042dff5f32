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
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// importFlags are the flags of an import.
type importFlags struct {
	typ, format, onDuplicate, state string
	identity, pgpKey, delimiter     string
	columns                         serve.List
}

func (p *importFlags) flags(f *flag.FlagSet) {
	f.StringVar(&p.typ, "type", "", "`type` of rows without a type: card, bank, ...")
	f.Var(&p.columns, "map", "`field=column` for CSV, separated by commas: id=ref,data.number=pan")
	f.StringVar(&p.onDuplicate, "on-duplicate", "fail", "for a row whose id is taken: `fail`, skip or update")
	f.StringVar(&p.state, "resume", "", "`file` for the state of the import")
	f.StringVar(&p.format, "format", "", "`jsonl` or csv, for any file name")
	f.StringVar(&p.delimiter, "delimiter", "", "`character` between the columns of CSV; by default a comma, and a tab in .tsv")
	f.StringVar(&p.identity, "identity", "", "`file` with an age identity that opens the file")
	f.StringVar(&p.pgpKey, "pgp-key", "", "`file` with an OpenPGP private key that opens the file")
}

func importTokens(c *call, p *importFlags) error {
	on := vault.OnDuplicate(p.onDuplicate)
	if !slices.Contains([]vault.OnDuplicate{vault.DuplicateFails, vault.DuplicateSkips, vault.DuplicateUpdates}, on) {
		return usagef("--on-duplicate takes fail, skip or update")
	}
	if err := checkType(p.typ); err != nil {
		return err
	}
	src, err := openSource(c, p)
	if err != nil {
		return err
	}
	defer src.close()
	o, err := c.open()
	if err != nil {
		return err
	}
	state, err := openState(p.state, o.name, src)
	if err != nil {
		return err
	}
	run := &importing{c: c, src: src, state: state, bar: terminal.NewProgress(c.Err), first: state.Rows,
		resumed: state.resumed && on == vault.DuplicateFails}
	opts := &vault.ImportOptions{OnDuplicate: on, Name: state.Name, FirstRow: state.Rows + 1, Resumed: state.resumed}
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
	src   *source
	state *importState
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
	if err := r.state.save(); err != nil { // before the first row, because ids of rows may depend on the state
		return err
	}
	rows, err := r.src.rows(r.state.Rows)
	if err != nil {
		return err
	}
	saved := time.Now()
	for result, err := range in.Import(r.c.ctx, rows, opts) {
		if err != nil {
			return errors.Join(r.failure(err), r.state.save())
		}
		if err := r.count(result); err != nil {
			return err
		}
		if time.Since(saved) > saveEvery {
			if err := r.state.save(); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	r.state.Done = true
	return r.state.save()
}

// failure returns an error with the last row and how to continue.
func (r *importing) failure(err error) error {
	if r.c.ctx.Err() == nil {
		return fmt.Errorf("after row %d: %w", r.state.Rows, err)
	}
	stopped := &interrupted{what: fmt.Sprintf("after row %d", r.state.Rows)}
	if r.state.file != "" {
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
	end := fmt.Sprintf("%s rows  %s/s", grouped(r.state.Rows), grouped(int(rate)))
	part := r.src.part()
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
		return writeJSON(r.c.Out, result)
	}
	r.bar.Erase()
	if len(result.Errors) == 0 {
		detail := result.Detail
		if detail == "" && result.Err != nil {
			detail = firstLine(result.Err)
		}
		_, err := fmt.Fprintf(r.c.Out, "row %d: %s\n", result.Row, detail)
		return err
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
		found = fmt.Sprintf(", %s found from the interrupted run", grouped(s.Found))
	}
	err := r.c.say(nil, figures, "Imported %s: %s created, %s updated, %s skipped, %s failed%s.", counted(s.Rows, "row"),
		grouped(s.Created), grouped(s.Updated), grouped(s.Skipped), grouped(s.Failed), found)
	if err == nil && s.Failed > 0 {
		return errReported
	}
	return err
}
