package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/storage"
)

// Verdicts of log verify, which have their own exit codes.
var (
	errTampered   = errors.New("the log was tampered with")
	errCannotTell = errors.New("cannot tell whether the log was tampered with")
)

func evidenceCommands() []*command {
	return []*command{
		{
			name: "log key", reach: inProcess, trees: madeTrees, summary: "print the public key of the log's signed notes",
			example: "tokenvault log key --db vault.db --key-file vault.key",
			act: inVault(func(c *call, v *vault.Vault) error {
				key, err := v.EvidenceKey()
				return c.printText([]byte(key+"\n"), err)
			}),
		},
		{
			name: "log rotate-key", reach: inProcess, trees: madeTrees, summary: "replace the key of the log's signed notes, and print the public key",
			about: `For a day, the old key signs too. It verifies the notes that it signed for ever,
				because a signed event in the log names both keys. Servers use the new key
				within a minute.`,
			example: "tokenvault log rotate-key --db vault.db --key-file vault.key",
			act: inVault(func(c *call, v *vault.Vault) error {
				key, err := v.RotateEvidenceKey(c.ctx)
				return c.printText([]byte(key+"\n"), err)
			}),
		},
		{
			name: "log checkpoint", reach: bothWays, trees: madeTrees, summary: "sign the current log, and print the note",
			example: "tokenvault log checkpoint --db vault.db --key-file vault.key\ntokenvault log checkpoint --url https://vault.example.com",
			act:     checkpoint,
		},
		{
			name: "log prove", args: "ID", min: 1, max: 1, reach: bothWays, trees: madeTrees, summary: "print the proof that an entry is in the log",
			example: "tokenvault log prove 0198c5a0-0000-7000-8000-000000000000 --tenant Acme",
			act: func(c *call) error {
				id, err := uuid.Parse(c.args[0])
				if err != nil {
					return shell.Usagef("ID is the id of an entry, a UUID")
				}
				return inTenant(func(c *call, o *opened) error { return c.printText(o.evidence().LogProof(c.ctx, id)) })(c)
			},
		},
		{
			name: "log evidence", args: "[FILE]", max: 1, reach: bothWays, trees: madeTrees, summary: "write the log with its proofs, for log verify",
			example: "tokenvault log evidence acme.ndjson --tenant Acme",
			act:     inTenant(exportEvidence),
		},
	}
}

// auditCommands returns the commands that verify a log or accept a restored
// database.
func auditCommands() []*command {
	return []*command{
		{
			name: "log verify", args: "[FILE]", max: 1, reach: inProcess, trees: madeTrees, summary: "verify an exported log, or all logs in a database",
			about: `With a FILE from log evidence, and the public key in --key, it needs neither the
				database nor the master key. Without a FILE it verifies the log of every tenant
				in the database. The exit status is 0 if the log is verified, 5 if it was
				tampered with, and 6 if the input does not allow a verdict.`,
			example: "tokenvault log verify acme.ndjson --key vault.example+5d3fa1c2+AXB1YmxpYw==",
			setup: func(f *flag.FlagSet) action {
				key := f.String("key", "", "public `key`, as log key prints it")
				since := f.String("since", "", "`file` with an earlier note, which the log must continue")
				anchor := f.String("anchor", "", "`file` of an anchor, which the database must continue")
				return func(c *call) error { return verifyLogs(c, *key, *since, *anchor) }
			},
		},
		{
			name: "log accept-restore", reach: inProcess, trees: madeTrees, summary: "accept a restored database, so that notes are signed again",
			example: "tokenvault log accept-restore --reason restored-after-disk-failure",
			setup: func(f *flag.FlagSet) action {
				reason := f.String("reason", "", "`text` that explains why; it stays in the log")
				anchor := f.String("anchor", "", "`file` of an anchor that is ahead of the database")
				f.Bool("yes", false, "accepted for scripts; --reason is the confirmation")
				return func(c *call) error {
					if *reason == "" {
						return shell.Usagef("--reason is required")
					}
					if *anchor != "" {
						c.anchors = []vault.Anchor{vault.AnchorFile(*anchor)}
					}
					o, err := c.openVault()
					if err != nil {
						return err
					}
					if err := o.vault.AcceptRestore(c.ctx, *reason); err != nil {
						return err
					}
					s, err := o.vault.EvidenceStatus()
					if err == nil {
						c.inform("The restore is accepted. Notes are signed again, under the origin %s. Running servers continue within two seconds.", s.Origin)
					}
					return err
				}
			},
		},
	}
}

// evidence returns the evidence configuration of the command, without background
// work, or nil if it uses none.
func (c *call) evidence(store vault.Storage) (*vault.EvidenceConfig, error) {
	keeps, ok := store.(storage.TreeStorage)
	if c.cmd.trees == noTrees || !ok {
		return nil, nil
	}
	if c.cmd.trees == foundTrees && len(c.anchors) == 0 {
		found, err := keeps.Trees(c.ctx, storage.TreeFilter{Tenants: []storage.ID{{}}})
		if err != nil || len(found) == 0 {
			return nil, err
		}
	}
	return &vault.EvidenceConfig{Every: -1, Anchors: c.anchors}, nil
}

// checkpoint prints the newest note. In process it needs no tenant.
func checkpoint(c *call) error {
	way, err := c.way()
	if err != nil {
		return err
	}
	if way == inProcess {
		return inVault(func(c *call, v *vault.Vault) error { return c.printText(v.Checkpoint(c.ctx)) })(c)
	}
	return inTenant(func(c *call, o *opened) error { return c.printText(o.client.LogCheckpoint(c.ctx)) })(c)
}

// logEvidence is the evidence of a tenant's log, in process or over HTTP.
type logEvidence interface {
	LogProof(ctx context.Context, id uuid.UUID) ([]byte, error)
	ExportEvidence(ctx context.Context, w io.Writer) error
}

func (o *opened) evidence() logEvidence {
	if o.client != nil {
		return o.client
	}
	return o.owner
}

func (c *call) printText(text []byte, err error) error {
	if err == nil {
		_, err = c.Out.Write(text)
	}
	return err
}

func exportEvidence(c *call, o *opened) error {
	if len(c.args) == 0 {
		return o.evidence().ExportEvidence(c.ctx, c.Out)
	}
	path := filepath.Clean(c.args[0])
	if is, err := os.Lstat(path); err == nil && !is.Mode().IsRegular() {
		return shell.Usagef("%s exists and is not a regular file", path)
	}
	return serve.ReplaceFile(path, func(w io.Writer) (int64, error) { return 0, o.evidence().ExportEvidence(c.ctx, w) })
}

// readOnly is an anchor that stores no new notes. With it, the command cannot
// sign a note that contradicts the anchor.
type readOnly struct{ vault.Anchor }

func (readOnly) Put(context.Context, []byte) error { return nil }

// compareAnchor makes the evidence compare the database with an anchor, if there is
// one.
func (c *call) compareAnchor(anchor string) {
	if anchor != "" {
		c.anchors = []vault.Anchor{readOnly{vault.AnchorFile(anchor)}}
	}
}

// verifyLogs verifies a bundle, or the logs in a database.
func verifyLogs(c *call, key, since, anchor string) error {
	switch file := len(c.args) == 1; {
	case file && anchor != "":
		return shell.Usagef("--anchor is for a database; for a FILE, --since names a note")
	case !file && key != "":
		return shell.Usagef("--key is for a FILE")
	}
	var note []byte
	if since != "" {
		var err error
		if note, err = os.ReadFile(filepath.Clean(since)); err != nil {
			return fmt.Errorf("%w: %w", errCannotTell, err)
		}
	}
	if len(c.args) == 1 {
		return verifyFile(c, key, note)
	}
	options := &vault.VerifyOptions{}
	if note != nil {
		options.Since = append(options.Since, note)
	}
	if anchor != "" {
		c.compareAnchor(anchor)
		newest, err := vault.AnchorFile(anchor).Latest(c.ctx)
		if err == nil && newest == nil {
			err = fmt.Errorf("%w: the anchor has no note", errCannotTell)
		}
		if err != nil {
			return err
		}
		options.Since = append(options.Since, newest)
	}
	o, err := c.openVault()
	if err != nil {
		return err
	}
	return c.verdict(o.vault.VerifyLogs(c.ctx, options))
}

func verifyFile(c *call, key string, since []byte) error {
	if key == "" {
		return shell.Usagef("--key is required; tokenvault log key prints the public key")
	}
	file, err := os.Open(filepath.Clean(c.args[0]))
	if err != nil {
		return fmt.Errorf("%w: %w", errCannotTell, err)
	}
	defer func() { _ = file.Close() }()
	return c.verdict(evidence.Verify(file, key, since))
}

// verdict prints the restores, the summary and the findings of a report.
func (c *call) verdict(report *evidence.Report, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errCannotTell, err)
	}
	for _, r := range report.Restores {
		at := r.Time.UTC().Format(time.RFC3339)
		if err := c.say(nil, map[string]any{"restored_at": r.Time, "origin": r.Origin, "reason": r.Reason},
			"restored\t%s\torigin %s\treason: %q", at, r.Origin, r.Reason); err != nil {
			return err
		}
	}
	if c.json {
		c.inform("%s", report.Summary())
	} else if _, err := fmt.Fprintln(c.Out, report.Summary()); err != nil {
		return err
	}
	for _, f := range report.Findings {
		if err := c.printFinding(f); err != nil {
			return err
		}
	}
	switch {
	case !report.OK():
		return errTampered
	case report.Entries == 0:
		return fmt.Errorf("%w: no entry is in a tree, so there is nothing to verify", errCannotTell)
	case waits(report):
		return fmt.Errorf("%w: entries wait for more than a minute for their place in the tree", errCannotTell)
	}
	c.inform("The log is verified.")
	return nil
}

// waits reports whether entries are in no tree although they are older than a
// minute.
func waits(report *evidence.Report) bool {
	return slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool {
		return f.Verdict == evidence.Unsequenced && time.Since(time.UnixMilli(evidence.Millis(f.EntryID))) > time.Minute
	})
}

// printFinding prints a finding on one line. Without --json, it leaves out findings
// that do not mean tampering: the summary counts them.
func (c *call) printFinding(f evidence.Finding) error {
	if !c.json {
		if !f.Verdict.Tampering() {
			return nil
		}
		_, err := fmt.Fprintf(c.Out, "%s\t%s\n", f.Verdict, f)
		return err
	}
	line := struct {
		Verdict   evidence.Verdict `json:"verdict"`
		Tenant    uuid.UUID        `json:"tenant_id,omitzero"`
		Index     int64            `json:"index"`
		EntryID   uuid.UUID        `json:"entry_id,omitzero"`
		Row       string           `json:"row,omitempty"`
		Time      time.Time        `json:"time,omitzero"`
		Actor     string           `json:"actor,omitempty"`
		Operation string           `json:"operation,omitempty"`
		Entity    string           `json:"entity,omitempty"`
		Text      string           `json:"text"`
	}{Verdict: f.Verdict, Tenant: f.Tenant, Index: f.Index, EntryID: f.EntryID, Row: f.Row, Text: f.String()}
	if e := f.Entry; e != nil {
		line.Time, line.Actor, line.Operation = e.CreatedAt, strings.TrimSpace(e.ActorType+" "+e.ActorName), e.Operation
		line.Entity = strings.TrimSpace(e.EntityType + " " + e.EntityID)
	}
	return shell.WriteJSON(c.Out, line)
}
