package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
)

// Verdicts of log verify, which have exit codes of their own.
var (
	errTampered   = errors.New("the log was tampered with")
	errCannotTell = errors.New("cannot tell whether the log was tampered with")
)

func evidenceCommands() []*command {
	return []*command{
		{
			name: "log key", reach: inProcess, summary: "print the public key of the log's signed notes",
			example: "tokenvault log key --db vault.db --key-file vault.key",
			setup: func(*flag.FlagSet) action {
				return evident(func(c *call, v *vault.Vault) error {
					key, err := v.EvidenceKey()
					return c.printText([]byte(key+"\n"), err)
				})
			},
		},
		{
			name: "log checkpoint", reach: inProcess, summary: "sign what the log holds, and print the note",
			example: "tokenvault log checkpoint --db vault.db --key-file vault.key",
			setup: func(*flag.FlagSet) action {
				return evident(func(c *call, v *vault.Vault) error {
					msg, err := v.Checkpoint(c.ctx)
					return c.printText(msg, err)
				})
			},
		},
		{
			name: "log prove", args: "ID", min: 1, max: 1, reach: inProcess, summary: "print the proof that an entry is in the log",
			example: "tokenvault log prove 0198c5a0-0000-7000-8000-000000000000 --tenant Acme",
			setup: func(*flag.FlagSet) action {
				return func(c *call) error {
					id, err := uuid.Parse(c.args[0])
					if err != nil {
						return usagef("ID is the id of an entry, a UUID")
					}
					return c.withEvidence(func(o *opened) error {
						proof, err := o.owner.LogProof(c.ctx, id)
						return c.printText(proof, err)
					})
				}
			},
		},
		{
			name: "log evidence", args: "[FILE]", max: 1, reach: inProcess, summary: "write the log with its proofs, for log verify",
			example: "tokenvault log evidence acme.ndjson --tenant Acme",
			setup: func(*flag.FlagSet) action {
				return func(c *call) error {
					return c.withEvidence(func(o *opened) error { return exportEvidence(c, o) })
				}
			},
		},
		{
			name: "log verify", args: "[FILE]", max: 1, reach: inProcess, summary: "verify an exported log, or those in a database",
			about: `With a FILE that log evidence has written, and the public key in --key, it needs
				neither the database nor the master key. Without a FILE it verifies the log of
				every tenant in the database. Exit 0: verified; 5: tampered with; 6: cannot tell.`,
			example: "tokenvault log verify acme.ndjson --key vault.example+5d3fa1c2+AXB1YmxpYw==",
			setup: func(f *flag.FlagSet) action {
				key := f.String("key", "", "public `key`, as log key prints it")
				since := f.String("since", "", "`file` with an earlier note, which the log must continue")
				anchor := f.String("anchor", "", "`file` of an anchor, which the database must continue")
				return func(c *call) error { return verifyLogs(c, *key, *since, *anchor) }
			},
		},
		{
			name: "log accept-restore", reach: inProcess, summary: "accept a restored database, so that notes are signed again",
			example: "tokenvault log accept-restore --reason restored-after-disk-failure",
			setup: func(f *flag.FlagSet) action {
				reason := f.String("reason", "", "why, in a `text` that stays in the log")
				anchor := f.String("anchor", "", "`file` of an anchor that is ahead of the database")
				return func(c *call) error {
					if *reason == "" {
						return usagef("give the --reason")
					}
					c.evidence = evidenceOf(*anchor)
					o, err := c.openVault()
					if err != nil {
						return err
					}
					return o.vault.AcceptRestore(c.ctx, *reason)
				}
			},
		},
	}
}

// evidenceOf returns the configuration of a command, which does nothing in the
// background.
func evidenceOf(anchor string) *vault.EvidenceConfig {
	cfg := &vault.EvidenceConfig{Every: -1}
	if anchor != "" {
		cfg.Anchors = []vault.Anchor{vault.AnchorFile(anchor)}
	}
	return cfg
}

// evident is an action on a vault with evidence.
func evident(do func(*call, *vault.Vault) error) action {
	return func(c *call) error {
		c.evidence = evidenceOf("")
		o, err := c.openVault()
		if err != nil {
			return err
		}
		return do(c, o.vault)
	}
}

// withEvidence opens a tenant of a vault with evidence.
func (c *call) withEvidence(do func(*opened) error) error {
	c.evidence = evidenceOf("")
	o, err := c.open()
	if err != nil {
		return err
	}
	return do(o)
}

func (c *call) printText(text []byte, err error) error {
	if err == nil {
		_, err = c.Out.Write(text)
	}
	return err
}

func exportEvidence(c *call, o *opened) (err error) {
	var to io.Writer = c.Out
	if len(c.args) == 1 {
		file, failed := os.Create(filepath.Clean(c.args[0]))
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	return o.owner.ExportEvidence(c.ctx, to)
}

// verifyLogs verifies a bundle, or the logs in a database.
func verifyLogs(c *call, key, since, anchor string) error {
	var note []byte
	if since != "" {
		var err error
		if note, err = os.ReadFile(filepath.Clean(since)); err != nil {
			return err
		}
	}
	if len(c.args) == 1 {
		return verifyFile(c, key, note)
	}
	c.evidence = evidenceOf(anchor)
	o, err := c.openVault()
	if err != nil {
		return err
	}
	options := &vault.VerifyOptions{}
	if note != nil {
		options.Since = [][]byte{note}
	}
	return c.verdict(o.vault.VerifyLogs(c.ctx, options))
}

func verifyFile(c *call, key string, since []byte) error {
	if key == "" {
		return usagef("give the public key in --key; tokenvault log key prints it")
	}
	file, err := os.Open(filepath.Clean(c.args[0]))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return c.verdict(evidence.Verify(file, key, since))
}

// verdict prints the findings of a report.
func (c *call) verdict(report *evidence.Report, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errCannotTell, err)
	}
	for _, f := range report.Findings {
		if _, err := fmt.Fprintf(c.Out, "%s\ttenant %s\tleaf %d\tentry %s\n", f.Verdict, f.Tenant, f.Index, f.EntryID); err != nil {
			return err
		}
	}
	if !report.OK() {
		return errTampered
	}
	_, err = fmt.Fprintln(c.Out, "verified")
	return err
}
