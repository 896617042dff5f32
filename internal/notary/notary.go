// Package notary keeps the evidence of a vault: it connects package ledger with the
// vault's tenants, keys and log, and serves the calls about evidence.
//
// It promises that entries get their MAC before they are written, that a denied master
// key stops all signing, and that an announced key signs beside the former one for a
// day. It rests on package ledger for the trees and the verification, whose comment has
// the invariants, and on package core for the rights of a caller. Anchors, in files or
// behind HTTP, hold what it signs. Begin with [Open], then read [Keeper.Run].
package notary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Config configures the evidence.
type Config struct {
	Origin string      // if empty, the stored or a random one
	Signer note.Signer // if nil, a key sealed in the database
	// Previous also signs, while the program changes its signer. It may be nil.
	Previous note.Signer
	Every    time.Duration // between checkpoints; zero means a minute, negative means never
	// VerifyEvery is the time between verifications of all logs; zero means 12 hours.
	VerifyEvery time.Duration
	Anchors     []ledger.Anchor
	OnAlarm     func(ledger.Alarm) // may be nil
}

// Keeper keeps the evidence of a vault.
type Keeper struct {
	*ledger.Ledger
	vault         *core.Vault
	store         ledger.Store
	ring          *seal.Ring // of the vault itself
	schedule      ledger.Schedule
	origin        string  // of the configuration
	own, previous *signer // of the program; may be nil
	keys          atomic.Pointer[keyset]
}

// newKeeper checks a configuration and reads the keys.
func newKeeper(ctx context.Context, v *core.Vault, c *Config) (*Keeper, error) {
	store, ok := v.Store.(ledger.Store)
	if !ok {
		return nil, errors.New("vault: Config.Evidence needs a storage that keeps the trees over the log (storage.TreeStorage)")
	}
	if c.Origin != "" {
		if err := evidence.CheckOrigin(c.Origin); err != nil {
			return nil, fmt.Errorf("vault: Config.Evidence.Origin: %w", err)
		}
	}
	k := &Keeper{vault: v, store: store, schedule: ledger.Schedule{Checkpoint: c.Every, Verify: c.VerifyEvery}, origin: c.Origin}
	if err := k.ownSigners(c); err != nil {
		return nil, err
	}
	var err error
	if k.ring, err = vaultRing(ctx, v); err != nil {
		return nil, err
	}
	_, err = k.loadKeys(ctx)
	return k, err
}

// ownSigners sets the signers of the program.
func (k *Keeper) ownSigners(c *Config) (err error) {
	switch {
	case c.Signer == nil && c.Previous != nil:
		return errors.New("vault: Config.Evidence.Previous needs a Signer")
	case c.Signer == nil:
		return nil
	case c.Origin != "" && c.Signer.Name() != c.Origin:
		return errors.New("vault: Config.Evidence.Signer must have the name of Config.Evidence.Origin")
	case c.Previous != nil && c.Previous.Name() != c.Signer.Name():
		return errors.New("vault: Config.Evidence.Previous must have the name of Config.Evidence.Signer")
	}
	if k.own, err = newSigner(c.Signer); err == nil && c.Previous != nil {
		k.previous, err = newSigner(c.Previous)
	}
	return err
}

// Open starts to keep evidence for a vault that runs no operations yet.
func Open(ctx context.Context, v *core.Vault, c Config) (*Keeper, error) {
	k, err := newKeeper(ctx, v, &c)
	if err != nil {
		return nil, err
	}
	set := k.keys.Load()
	lc := ledger.Config{
		Store: k.store, Name: set.signers[0].Name(), Signers: set.signers, Keys: set.verifiers,
		Mac: k.mac, OtherMacs: k.otherMacs, KnownType: audit.Known, Tenants: k.tenants, Living: k.living, Stored: k.checkStored, Compare: k.compare, Anchors: c.Anchors, Refresh: k.refresh,
		Now: v.Now,
		Alarm: func(a ledger.Alarm) {
			v.Logger.Error("evidence: "+a.Text, "alarm", string(a.Kind), "tenant_id", a.Tenant, "entry_id", a.Entry)
			if c.OnAlarm != nil {
				c.OnAlarm(a)
			}
		},
	}
	if s, ok := v.Store.(storage.Instanced); ok {
		lc.Instance = s.Instance
	}
	if k.Ledger, err = ledger.Open(ctx, lc); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return k, nil
}

// Borrow returns a ledger for work that deletes log entries, and a function that
// ends its use. Another process on the same database may keep evidence. Then a
// process without Config.Evidence must enter its deletions in the trees too,
// because they would look like tampering. The ledger is nil if the database has no
// trees.
func Borrow(ctx context.Context, v *core.Vault) (*ledger.Ledger, func(), error) {
	none := func() {}
	if k, ok := v.Ledger.(*Keeper); ok {
		return k.Ledger, none, nil
	}
	store, ok := v.Store.(ledger.Store)
	if !ok {
		return nil, none, nil
	}
	trees, err := store.Trees(ctx, storage.TreeFilter{Tenants: []storage.ID{{}}})
	if err != nil || len(trees) == 0 {
		return nil, none, err
	}
	k, err := Open(ctx, v, Config{})
	if err != nil {
		return nil, none, fmt.Errorf("the log has evidence, so its entries cannot be deleted without it: %w", err)
	}
	return k.Ledger, func() { _ = k.Ledger.Close(ctx) }, nil
}

// Key returns the public key in the form of package note. It is empty if the
// signer does not reveal it.
func (k *Keeper) Key() string { return k.keys.Load().vkey }

// mac computes keyed hashes for the ledger. It uses the vault's ring for the
// vault's own tree.
func (k *Keeper) mac(ctx context.Context, tenant uuid.UUID, data []byte) (evidence.Mac, error) {
	if tenant == (uuid.UUID{}) {
		return hash(k.ring, data), nil
	}
	state, err := k.vault.Tenants.Get(ctx, tenant)
	if core.KeyDenied(err) {
		state, err = k.vault.Tenants.Front(ctx, tenant)
	}
	switch {
	case err == nil:
		return hash(state.Ring, data), nil
	case errors.Is(err, fault.ErrNoTenant):
		return evidence.Mac{}, ledger.ErrGone
	case errors.Is(err, fault.ErrAltered):
		return evidence.Mac{}, fmt.Errorf("%w: the key ring of tenant %s is older than the one this node has used", ledger.ErrTampered, tenant)
	case core.Unreadable(err):
		return evidence.Mac{}, fmt.Errorf("%w: the keys of tenant %s cannot be read", ledger.ErrTampered, tenant)
	default:
		return evidence.Mac{}, err
	}
}

// otherMacs returns the keyed hashes that mac has returned for a tenant before it got
// its own key, or that another node returns since then.
func (k *Keeper) otherMacs(ctx context.Context, tenant uuid.UUID, data []byte) ([]evidence.Mac, error) {
	if tenant == (uuid.UUID{}) {
		return nil, nil
	}
	state, err := k.vault.Tenants.Reload(ctx, tenant)
	if err != nil || state.Ring.Front() == state.Ring {
		if errors.Is(err, fault.ErrNoTenant) || core.Unreadable(err) {
			err = nil // mac has reported it
		}
		return nil, err
	}
	return []evidence.Mac{hash(state.Ring, data), state.Ring.HashBytes(macLabel, data)}, nil
}

// tenants returns the tenants that have a log. They include deleted tenants whose
// rows still exist, which the ledger skips.
func (k *Keeper) tenants(ctx context.Context, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	ids, err := k.vault.Store.LogTenants(ctx, k.vault.Now().AddDate(100, 0, 0), storage.ID(after), limit)
	all := make([]uuid.UUID, len(ids))
	for i := range ids {
		all[i] = uuid.UUID(ids[i])
	}
	return all, err
}

// living calls a function for each tenant that has a record, and for each that has keys.
func (k *Keeper) living(ctx context.Context, do func(uuid.UUID) error) error {
	for _, kind := range []string{keyring.KindTenant, keyring.KindRing} {
		for rec, err := range storage.AllRecords(ctx, k.vault.Store, storage.RecordFilter{Kind: kind, Limit: livingPage}) {
			if err == nil {
				err = do(uuid.UUID(rec.ID))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const livingPage = 500

// Run keeps the trees up to date until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	if k.schedule.Checkpoint < 0 {
		return
	}
	schedule := k.schedule
	schedule.Paused = func() bool { return k.vault.Key.Usable() != nil }
	k.Ledger.Run(ctx, schedule, func(err error) {
		k.vault.Logger.ErrorContext(ctx, "evidence failed", "error", err)
	})
}

// closeWait bounds how long closing a vault waits for its last note.
const closeWait = 5 * time.Second

// Close signs the last note and sends it to the anchors.
func (k *Keeper) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	_, err := k.Ledger.Checkpoint(ctx)
	if errors.Is(err, ledger.ErrSuspended) {
		err = nil // reported as an alarm
	}
	if err := errors.Join(err, k.Ledger.Close(ctx)); err != nil {
		k.vault.Logger.Error("the last checkpoint of the log failed", "error", err)
	}
}

// Checkpoint sequences all committed entries, and returns the newest note.
func (k *Keeper) Checkpoint(ctx context.Context) ([]byte, error) {
	msg, err := k.Round(ctx)
	return msg, unsigned(err)
}

// unsigned explains to callers why no note is signed.
func unsigned(err error) error {
	switch {
	case errors.Is(err, ledger.ErrSuspended):
		return fault.New(fault.ErrUnavailable, "the database was restored or copied; nothing is signed until the restore is accepted")
	case errors.Is(err, ledger.ErrTampered):
		return fault.New(fault.ErrUnavailable, "the trees over the log were tampered with")
	default:
		return err
	}
}

// TenantCheckpoint puts all committed entries of a tenant into its tree, including
// entries from before evidence began, and returns the newest note.
func (k *Keeper) TenantCheckpoint(ctx context.Context, tenant uuid.UUID) ([]byte, error) {
	msg, err := k.Ledger.Checkpoint(ctx, tenant)
	imported := int64(0)
	for more := true; more && err == nil; {
		var n int64
		n, more, err = k.Import(ctx, tenant)
		imported += n
	}
	if errors.Is(err, ledger.ErrTampered) && msg != nil {
		return msg, nil // the bundle shows what is wrong
	}
	if err == nil && imported > 0 {
		msg, err = k.Ledger.Checkpoint(ctx, tenant)
	}
	return msg, unsigned(err)
}

// An entry enters the tree after all transactions that began before it have ended.
// A proof waits for that, but only for a short time.
const (
	proofWait  = 2 * time.Second
	proofPause = 50 * time.Millisecond
)

// Proof returns the proof of an entry of the caller's log.
func (k *Keeper) Proof(ctx context.Context, op *core.Op, id uuid.UUID) ([]byte, error) {
	for began := time.Now(); ; {
		if _, err := k.TenantCheckpoint(ctx, op.Tenant()); err != nil {
			return nil, err
		}
		proof, err := k.Ledger.Proof(ctx, op.Tenant(), id)
		if !errors.Is(err, ledger.ErrNotSequenced) {
			return proof, unsigned(err)
		}
		if err := k.mayCome(ctx, op, id); err != nil {
			return nil, err
		}
		if time.Since(began) > proofWait {
			return nil, fault.New(fault.ErrUnavailable, "the entry is not in the tree yet")
		}
		if err := pace.Sleep(ctx, proofPause); err != nil {
			return nil, err
		}
	}
}

// mayCome returns an error for an entry that does not exist.
func (k *Keeper) mayCome(ctx context.Context, op *core.Op, id uuid.UUID) error {
	rows, err := k.store.LogsByRef(ctx, op.TenantID(), []storage.LogRef{{ID: storage.ID(id), Seq: storage.AnySeq}})
	if err == nil && len(rows) == 0 {
		return fault.New(fault.ErrNotFound, "log entry not found")
	}
	return err
}

// Consistency returns the proof that the caller's log continues its state of an
// earlier size.
func (k *Keeper) Consistency(ctx context.Context, op *core.Op, from int64) (to int64, hashes []evidence.Hash, err error) {
	if _, err := k.TenantCheckpoint(ctx, op.Tenant()); err != nil {
		return 0, nil, err
	}
	to, hashes, err = k.Ledger.Consistency(ctx, op.Tenant(), from)
	if err != nil && (from < 0 || from > to) {
		return 0, nil, fault.Field("from", "must be a size that the log has had")
	}
	return to, hashes, unsigned(err)
}

// Export writes the bundle of the caller's tenant. The caller must keep the
// permission until the end.
func (k *Keeper) Export(ctx context.Context, op *core.Op, permission string, w io.Writer) error {
	if err := op.LogOwnRead(ctx); err != nil {
		return err
	}
	if _, err := k.TenantCheckpoint(ctx, op.Tenant()); err != nil {
		return err
	}
	return unsigned(k.Ledger.Export(ctx, op.Tenant(), &guarded{w: w, ctx: ctx, op: op, permission: permission, checked: time.Now()}))
}

// guarded is the output of an export. It checks the rights of the caller after
// each second and each guardedLines lines.
type guarded struct {
	w          io.Writer
	ctx        context.Context
	op         *core.Op
	permission string
	checked    time.Time
	lines      int
}

const guardedLines = 500

func (g *guarded) Write(p []byte) (int, error) {
	if g.lines++; g.lines%guardedLines == 0 || time.Since(g.checked) >= time.Second {
		if _, err := g.op.Again(g.ctx, g.permission); err != nil {
			return 0, err
		}
		g.checked = time.Now()
	}
	return g.w.Write(p)
}

// Continues returns ErrConflict if the database was restored and the restore was
// not accepted yet.
func (k *Keeper) Continues(ctx context.Context) error {
	_, err := k.Ledger.Checkpoint(ctx) // compares the database with the anchors
	if errors.Is(err, ledger.ErrSuspended) {
		return fault.New(fault.ErrConflict, "the database was restored; accept the restore first")
	}
	return err
}

// AcceptRestore accepts a restored database.
func (k *Keeper) AcceptRestore(ctx context.Context, reason string) error {
	if reason == "" {
		return fault.Field("reason", "must not be empty")
	}
	// Signing a note first compares the database with the anchors.
	_, err := k.Ledger.Checkpoint(ctx)
	if err != nil && !errors.Is(err, ledger.ErrSuspended) {
		return err
	}
	_, err = k.Ledger.AcceptRestore(ctx, reason)
	if errors.Is(err, ledger.ErrNotSuspended) {
		return fault.New(fault.ErrConflict, "there is no restore to accept")
	}
	return err
}
