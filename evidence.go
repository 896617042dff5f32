package vault

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/erase"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/notary"
)

// EvidenceConfig makes the audit log tamper-evident. Entries that are changed,
// deleted or invented in the database are detected, even by an auditor who has only
// an export and one public key. Package evidence describes the formats.
type EvidenceConfig struct {
	// Origin names the log in its signed notes, such as "vault.example/log".
	// Default: a random name that is generated once and stored.
	Origin string

	// Signer signs notes with Ed25519, under the name of Origin. A signer with a
	// method VerifierKey() string publishes its public key. Default: a key that is
	// generated once and sealed under the master key.
	Signer note.Signer

	// Previous is the signer that Signer replaced. While it is set, both sign. Set
	// it for a day, so that verifiers can learn the new key first. The published
	// public keys of former signers are stored and still verify.
	Previous note.Signer

	// Every is the time between checkpoints. Default one minute. If it is negative,
	// nothing runs in the background, and the program has to call
	// [Vault.Checkpoint] itself.
	Every time.Duration

	// VerifyEvery is the time between verifications of all logs in the background.
	// Default 12 hours. All nodes should have the same.
	VerifyEvery time.Duration

	// Anchors keep signed notes outside the database. Without an anchor, a complete
	// older copy of the database cannot be told from the newest.
	Anchors []Anchor

	// OnAlarm, if set, is called when something is wrong, never concurrently.
	// Alarms also go to [Config].Logger.
	OnAlarm func(Alarm)
}

// Anchor keeps signed notes where a writer of the database cannot change them. An
// anchor that hangs delays no request.
type Anchor interface {
	// Latest returns the newest note, or nil if there is no note.
	Latest(ctx context.Context) ([]byte, error)
	// Put adds a note.
	Put(ctx context.Context, msg []byte) error
}

// AnchorFile returns an anchor that appends notes to a file. It suits write-once
// storage, a repository, or a synced folder.
func AnchorFile(path string) Anchor { return notary.AnchorFile(path) }

// AnchorURL returns an anchor behind a URL: POST adds a note, and GET returns the
// newest note, or 404. The client may be nil.
func AnchorURL(url string, client *http.Client) Anchor {
	if client == nil {
		client = http.DefaultClient
	}
	return &notary.AnchorHTTP{URL: url, Client: client}
}

// AlarmKind is the kind of an [Alarm].
type AlarmKind string

// The kinds of alarms.
const (
	// AlarmTampered means that the log was tampered with.
	AlarmTampered AlarmKind = AlarmKind(ledger.AlarmTampered)
	// AlarmMissing means that an acknowledged entry is missing.
	AlarmMissing AlarmKind = AlarmKind(ledger.AlarmMissing)
	// AlarmLag means that the tree is more than a minute behind the log.
	AlarmLag AlarmKind = AlarmKind(ledger.AlarmLag)
	// AlarmStalled means that verification or signing has not advanced for almost
	// an hour.
	AlarmStalled AlarmKind = AlarmKind(ledger.AlarmStalled)
	// AlarmRestore means that the database was restored or copied: see
	// [Vault.AcceptRestore].
	AlarmRestore AlarmKind = AlarmKind(ledger.AlarmRestore)
	// AlarmForked means that the database contradicts a signed note.
	AlarmForked AlarmKind = AlarmKind(ledger.AlarmForked)
	// AlarmAnchor means that an anchor does not respond.
	AlarmAnchor AlarmKind = AlarmKind(ledger.AlarmAnchor)
)

// Alarm reports that something is wrong with the log.
type Alarm struct {
	Kind     AlarmKind
	TenantID uuid.UUID        // zero if it is about the whole vault
	EntryID  uuid.UUID        // zero if it is not about one entry
	Verdict  evidence.Verdict // what was found, for AlarmTampered
	Text     string
}

// openEvidence starts to keep evidence if it is configured.
func (v *Vault) openEvidence(ctx context.Context) error {
	c := v.cfg.Evidence
	if c == nil {
		return nil
	}
	keep := notary.Config{Origin: c.Origin, Signer: c.Signer, Previous: c.Previous, Every: c.Every, VerifyEvery: c.VerifyEvery}
	for _, a := range c.Anchors {
		keep.Anchors = append(keep.Anchors, a)
	}
	if tell := c.OnAlarm; tell != nil {
		keep.OnAlarm = func(a ledger.Alarm) {
			tell(alarmOf(a))
		}
	}
	var err error
	if v.evidence, err = notary.Open(ctx, v.core, keep); err != nil {
		return err
	}
	v.core.Ledger = v.evidence
	return nil
}

// keeper returns the keeper of the evidence, or ErrNotFound if evidence is off.
func (v *Vault) keeper(ctx context.Context) (*notary.Keeper, error) {
	if err := cmp.Or(v.core.Alive(), ctx.Err()); err != nil {
		return nil, err
	}
	if v.evidence == nil {
		return nil, fault.New(fault.ErrNotFound, "evidence is off")
	}
	return v.evidence, nil
}

// withKeeper runs do with the keeper of the evidence.
func withKeeper[T any](ctx context.Context, v *Vault, do func(*notary.Keeper) (T, error)) (out T, err error) {
	k, err := v.keeper(ctx)
	if err == nil {
		out, err = do(k)
	}
	return out, public(err)
}

// Checkpoint adds all committed entries to the trees over the log, and returns the
// newest signed note. Without [Config].Evidence it fails with ErrNotFound, as do
// the other methods about evidence.
func (v *Vault) Checkpoint(ctx context.Context) ([]byte, error) {
	return withKeeper(ctx, v, func(k *notary.Keeper) ([]byte, error) { return k.Checkpoint(ctx) })
}

// EvidenceKey returns the public key that verifies signed notes, in the form of
// golang.org/x/mod/sumdb/note. It is empty if the program's signer does not publish
// it.
func (v *Vault) EvidenceKey() (string, error) {
	return withKeeper(context.Background(), v, func(k *notary.Keeper) (string, error) { return k.Key(), nil })
}

// RotateEvidenceKey replaces the stored key that signs notes, and returns the new
// public key. The former key keeps signing for a day, and verifies forever: an
// event in the log names both keys. If [EvidenceConfig] has a Signer, it fails with
// ErrConflict.
func (v *Vault) RotateEvidenceKey(ctx context.Context) (string, error) {
	return withKeeper(ctx, v, func(k *notary.Keeper) (string, error) { return k.RotateKey(ctx) })
}

// EvidenceStatus is the state of the evidence on this node.
type EvidenceStatus struct {
	Origin     string             // of the signed notes
	Size       int64              // leaves of the vault's tree
	Note       []byte             // the newest note; nil before the first
	SignedAt   time.Time          // when the note was signed
	Suspended  string             // why nothing is signed; empty if notes are signed
	Lag        time.Duration      // age of the oldest entry of this node that is in no tree
	Pending    int                // entries of this node that are in no tree
	VerifiedAt time.Time          // when this node last verified everything; zero for never
	VerifiedOK bool               // whether that found no tampering
	Compared   string             // what it compared: see [evidence.Report.Summary]; empty if another node did a part
	Findings   []evidence.Finding // the tampering that Compared announces
	// LacksErasures means that an older copy of the database was accepted, and
	// later erasures, deletions and regenerated keys have not been applied again:
	// see [Vault.EraseAgain].
	LacksErasures bool
	Alarms        []Alarm // active alarms, newest first, up to 100
	// Raised counts the alarms since the start of this node, by kind.
	Raised  map[AlarmKind]int64
	Anchors []AnchorStatus // in the order of the configuration
}

// AnchorStatus is the state of an [Anchor] as this node knows it.
type AnchorStatus struct {
	Size     int64     // leaves of the vault's tree in the anchor's newest note; 0 for none
	GoodAt   time.Time // when the anchor last responded
	Failures int64     // calls that failed since the start of this node
	Err      error     // of the last call; nil if it succeeded
}

// maxWrong is the maximum number of problems that Wrong names.
const maxWrong = 5

// Wrong names what needs attention: why nothing is signed, and the active alarms,
// newest first. It is empty if nothing is wrong.
func (s *EvidenceStatus) Wrong() string {
	var all []string
	for _, text := range append([]string{s.Suspended}, alarmTexts(s.Alarms)...) {
		if text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	switch {
	case len(all) > maxWrong:
		return strings.Join(all[:maxWrong], "; ") + fmt.Sprintf("; and %d more", len(all)-maxWrong)
	case len(all) > 0:
		return strings.Join(all, "; ")
	case s.LacksErasures:
		return "a restore may lack erasures, deletions and regenerated keys; apply them again"
	default:
		return ""
	}
}

func alarmTexts(alarms []Alarm) (all []string) {
	for _, a := range alarms {
		all = append(all, a.Text)
	}
	return all
}

// EvidenceStatus returns the state of the evidence on this node, without a database
// query.
func (v *Vault) EvidenceStatus() (*EvidenceStatus, error) {
	k, err := v.keeper(context.Background())
	if err != nil {
		return nil, public(err)
	}
	s := k.Status()
	out := &EvidenceStatus{
		Origin: s.Origin, Size: s.Size, Note: s.Note, SignedAt: s.SignedAt, Suspended: s.Suspended,
		Lag: s.Lag, Pending: s.Pending, VerifiedAt: s.Verified, VerifiedOK: s.VerifiedOK, Compared: s.Compared, Findings: s.Findings, LacksErasures: s.LacksErasures,
	}
	for _, a := range s.Alarms {
		out.Alarms = append(out.Alarms, alarmOf(a))
	}
	out.Raised = make(map[AlarmKind]int64, len(s.Raised))
	for kind, n := range s.Raised {
		out.Raised[AlarmKind(kind)] = n
	}
	for _, a := range s.Anchors {
		out.Anchors = append(out.Anchors, AnchorStatus(a))
	}
	return out, nil
}

func alarmOf(a ledger.Alarm) Alarm {
	return Alarm{Kind: AlarmKind(a.Kind), TenantID: a.Tenant, EntryID: a.Entry, Verdict: a.Verdict, Text: a.Text}
}

// VerifyOptions selects what [Vault.VerifyLogs] verifies.
type VerifyOptions struct {
	// Tenants are the tenants to verify; nil means all.
	Tenants []uuid.UUID
	// Since are earlier notes that the log must continue, besides the notes of the
	// anchors.
	Since [][]byte
}

// VerifyLogs compares the log with the trees, the trees with the signed notes, and
// the notes with the anchors. The report lists every difference. The options may be
// nil.
func (v *Vault) VerifyLogs(ctx context.Context, o *VerifyOptions) (*evidence.Report, error) {
	if o == nil {
		o = &VerifyOptions{}
	}
	return withKeeper(ctx, v, func(k *notary.Keeper) (*evidence.Report, error) { return k.Verify(ctx, ledger.VerifyOptions(*o)) })
}

// AcceptRestore accepts a database that is a copy, or older than its newest note.
// The reason is kept in the log. Until a restore is accepted, nothing is signed.
func (v *Vault) AcceptRestore(ctx context.Context, reason string) error {
	k, err := v.keeper(ctx)
	if err != nil {
		return public(err)
	}
	return public(k.AcceptRestore(ctx, reason))
}

// EraseAgainParams selects what to withdraw again.
type EraseAgainParams struct {
	// Files are bundles of [Client.ExportEvidence], or audit logs as JSON lines, as
	// a log sink writes them. Bundles are verified, which needs [Config].Evidence.
	// Pass all files in one call.
	Files []io.ReadSeeker
	// Reason is stored in the log: see [EraseParams]. It may be empty.
	Reason string
	// Keep are the ids of suspended applications, proxies and reactors that a person
	// has confirmed. Without files, nothing else happens.
	Keep []uuid.UUID
	// DryRun only counts.
	DryRun bool
}

// ErasedAgain is the outcome of [Vault.EraseAgain].
type ErasedAgain struct {
	Erased       int `json:"erased"`       // tokens that were erased or deleted according to the files
	Count        int `json:"count"`        // of these, tokens that existed again and were erased
	Applications int `json:"applications"` // deleted applications that existed again and were deleted
	Keys         int `json:"keys"`         // replaced and deleted keys that worked again and were replaced or deleted
	Sessions     int `json:"sessions"`     // ended sessions that existed again and were ended
	Proxies      int `json:"proxies"`      // deleted proxies that existed again and were deleted
	Reactors     int `json:"reactors"`     // deleted reactors that existed again and were deleted
	// Suspended lists the applications, proxies and reactors that came back in an
	// older state. Kept lists the confirmed ones.
	Suspended []Held `json:"suspended,omitempty"`
	Kept      []Held `json:"kept,omitempty"`
}

// Held is an application, a proxy or a reactor that [Vault.EraseAgain] has suspended
// or confirmed.
type Held struct {
	TenantID uuid.UUID `json:"tenant_id"`
	Type     string    `json:"type"` // as in the log
	ID       uuid.UUID `json:"id"`
}

// EraseAgain withdraws again what a restored backup brought back: it erases tokens
// that were erased or deleted since the backup was made, deletes applications,
// proxies and reactors, ends sessions, deletes keys that were deleted, and replaces keys
// that were regenerated. Nobody learns the new key, so the owner of such an application makes another one with [Client.RegenerateKey].
//
// An application, proxy or reactor that was changed since the backup may have more
// rights again than it should. It is suspended: every use of it is ErrForbidden, on
// all nodes within a second. Its changes are possible, and do not end the
// suspension. A person who has looked at it ends it with EraseAgainParams.Keep.
//
// A token that was created after the erasure of another token with its id stays.
// So does a key that the application got after the restore. Calling EraseAgain
// again after an error is safe. Accept the restore first: see
// [Vault.AcceptRestore].
func (v *Vault) EraseAgain(ctx context.Context, p EraseAgainParams) (*ErasedAgain, error) {
	if err := cmp.Or(v.core.Alive(), ctx.Err()); err != nil {
		return nil, public(err)
	}
	again := erase.AgainParams{Files: p.Files, Reason: p.Reason, DryRun: p.DryRun, Keep: p.Keep}
	if v.evidence != nil {
		if err := v.evidence.Continues(ctx); err != nil {
			return nil, public(err)
		}
		again.VerifierKey = v.evidence.Key()
	}
	defer v.relay.ForgetProxies()
	done, err := erase.Again(ctx, v.core, &again)
	if done == nil {
		return nil, public(err)
	}
	return &ErasedAgain{
		Erased: done.Erased, Count: done.Count, Applications: done.Applications, Keys: done.Keys, Sessions: done.Sessions,
		Proxies: done.Proxies, Reactors: done.Reactors, Suspended: heldOf(done.Suspended), Kept: heldOf(done.Kept),
	}, public(err)
}

// heldOf converts entities of the internal package.
func heldOf(all []erase.Held) (out []Held) {
	for _, one := range all {
		out = append(out, Held(one))
	}
	return out
}

// withEvidence executes a verb that needs evidence.
func withEvidence[T any](ctx context.Context, c *Client, verb *core.Verb, do func(context.Context, *core.Op, *notary.Keeper) (T, error)) (T, error) {
	return run(ctx, c, verb, func(ctx context.Context, op *core.Op) (none T, err error) {
		k, err := c.v.keeper(ctx)
		if err != nil {
			return none, err
		}
		return do(ctx, op, k)
	})
}

// LogCheckpoint returns the newest signed note, which covers all committed entries
// of the tenant's log (permission log:read).
func (c *Client) LogCheckpoint(ctx context.Context) ([]byte, error) {
	return withEvidence(ctx, c, &core.VerbLogCheckpoint, func(ctx context.Context, op *core.Op, k *notary.Keeper) ([]byte, error) {
		return k.TenantCheckpoint(ctx, op.Tenant())
	})
}

// LogProof returns the proof that an entry is in the tenant's log, for
// [evidence.VerifyProof] (permission log:read).
func (c *Client) LogProof(ctx context.Context, id uuid.UUID) ([]byte, error) {
	return withEvidence(ctx, c, &core.VerbLogProof, func(ctx context.Context, op *core.Op, k *notary.Keeper) ([]byte, error) {
		return k.Proof(ctx, op, id)
	})
}

// LogConsistency is the proof that a log is an extension of an earlier state.
type LogConsistency struct {
	From   int64           `json:"from"`
	To     int64           `json:"to"` // the size of the log's tree
	Hashes []evidence.Hash `json:"hashes"`
}

// LogConsistency returns the proof that the tenant's log extends the log of an
// earlier size (permission log:read).
func (c *Client) LogConsistency(ctx context.Context, from int64) (*LogConsistency, error) {
	return withEvidence(ctx, c, &core.VerbLogConsistency, func(ctx context.Context, op *core.Op, k *notary.Keeper) (*LogConsistency, error) {
		to, hashes, err := k.Consistency(ctx, op, from)
		return &LogConsistency{From: from, To: to, Hashes: hashes}, err
	})
}

// ExportEvidence writes the tenant's log with its proofs, for [evidence.Verify]
// (permission log:read). After an error the output is incomplete.
func (c *Client) ExportEvidence(ctx context.Context, w io.Writer) error {
	_, err := withEvidence(ctx, c, &core.VerbExportEvidence, func(ctx context.Context, op *core.Op, k *notary.Keeper) (struct{}, error) {
		return struct{}{}, k.Export(ctx, op, core.VerbExportEvidence.Permission, w)
	})
	return err
}
