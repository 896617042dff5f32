package erase

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/sessions"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// AgainReason is the reason in the log when none is given.
const AgainReason = "again, after a restore"

const (
	// maxLine bounds a line of a file, in bytes.
	maxLine = 1 << 20
	// againSize is how many tokens are read at once. Each may be large.
	againSize = 20
)

// AgainParams are the parameters of Again.
type AgainParams struct {
	// Files are bundles of evidence, or audit logs as JSON lines.
	Files  []io.ReadSeeker
	Reason string // AgainReason when empty
	DryRun bool   // counts, and erases nothing
	// Keep are applications, proxies and reactors that a person has confirmed.
	Keep []uuid.UUID
	// VerifierKey verifies bundles. Without it, they are refused.
	VerifierKey string
}

// ErasedAgain is the outcome of Again.
type ErasedAgain struct {
	Erased       int // tokens that the files say were erased or deleted
	Count        int // of these, tokens that were there again
	Applications int // deleted applications that were there again
	Keys         int // applications that had a replaced key again, and deleted keys that were there again
	Sessions     int // ended sessions that were there again
	Proxies      int // deleted proxies that were there again
	Reactors     int // deleted reactors that were there again
	// Suspended are entities that were there in an older state.
	Suspended []Held
	Kept      []Held // entities that were confirmed
}

// Held is an application, a proxy or a reactor.
type Held struct {
	TenantID uuid.UUID
	Type     string
	ID       uuid.UUID
}

// Again withdraws what files say was withdrawn: it erases tokens that were erased
// or deleted, deletes applications, replaces keys and ends sessions. After a
// restore the database holds them again. A token that was created after the
// erasure of another one with the same id stays, and so does a key that an
// application got later. An application, proxy or reactor that was changed later
// than its row says is suspended, unless p.Keep names it.
func Again(ctx context.Context, v *core.Vault, p *AgainParams) (*ErasedAgain, error) {
	all := again{}
	for _, file := range p.Files {
		if err := all.read(file, p.VerifierKey); err != nil {
			return nil, err
		}
	}
	if err := all.everyTenant(ctx, v, len(p.Keep) > 0); err != nil {
		return nil, err
	}
	out := &ErasedAgain{}
	for _, tenant := range slices.SortedFunc(maps.Keys(all), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		out.Erased += len(all[tenant].withdrawn[ofToken])
		n, err := core.Do(ctx, v.Owner(tenant), &core.VerbEraseTokens, func(ctx context.Context, op *core.Op) (int, error) {
			if err := holdAgain(ctx, op, all[tenant], p, out); err != nil {
				return 0, err
			}
			if err := withdrawAgain(ctx, op, all[tenant].withdrawn, p.DryRun, out); err != nil {
				return 0, err
			}
			return eraseAgain(ctx, op, all[tenant].withdrawn[ofToken], p)
		})
		out.Count += n
		if err != nil && !errors.Is(err, fault.ErrNoTenant) {
			return out, err
		}
	}
	for _, id := range p.Keep {
		if !slices.ContainsFunc(out.Kept, func(h Held) bool { return h.ID == id }) {
			return out, fault.New(fault.ErrNotFound, "nothing with the id %s is suspended", id)
		}
	}
	if v.Ledger == nil || p.DryRun || len(p.Files) == 0 {
		return out, nil
	}
	return out, v.Ledger.ErasedAgain(ctx, int64(out.Count+out.Applications+out.Keys+out.Sessions+out.Proxies+out.Reactors+len(out.Suspended)))
}

// The kinds of what can be withdrawn.
const (
	ofToken       = "token"
	ofApplication = "application"
	ofKey         = "key"         // all keys of an application, by the id of the application
	ofOneKey      = "deleted key" // by the id of the key
	ofSession     = "session"
	ofProxy       = "proxy"
	ofReactor     = "reactor"
)

// withdrawn is when something was withdrawn, by kind and id.
type withdrawn map[string]map[string]time.Time

// again is what the files say, by tenant.
type again map[uuid.UUID]*history

// history is what was withdrawn and what was changed.
type history struct {
	withdrawn
	changed map[Held]*changes
}

// line is a line of a file: the header of a bundle, a leaf of a bundle, or an entry
// of the log.
type line struct {
	Bundle string    `json:"bundle"`
	Tenant uuid.UUID `json:"tenant"`
	Entry  *entry    `json:"entry"`
	entry
}

type entry struct {
	ID         uuid.UUID `json:"id"`
	TenantID   uuid.UUID `json:"tenant_id"`
	EntityID   string    `json:"entity_id"`
	EntityType string    `json:"entity_type"`
	Operation  string    `json:"operation"`
	Message    string    `json:"message"`
	CreatedAt  time.Time `json:"created_at"`
}

// withdraws returns the kind of what the entry says was withdrawn, or "".
func (e *entry) withdraws() string {
	switch {
	case e.Operation == audit.Key && e.EntityType == audit.Application:
		if _, ok := audit.DeletedKey(e.Message); ok {
			return ofOneKey
		}
		return ""
	case e.Operation == audit.Update && e.EntityType == audit.Application && strings.HasPrefix(e.Message, audit.KeyRegenerated):
		return ofKey
	case e.Operation != audit.Delete:
		return ""
	case e.EntityType == audit.Application:
		return ofApplication
	case e.EntityType == audit.Session:
		return ofSession
	case e.EntityType == audit.Proxy:
		return ofProxy
	case e.EntityType == audit.Reactor:
		return ofReactor
	case token.TypeOf(e.EntityType) != nil:
		return ofToken
	default:
		return ""
	}
}

var (
	errLines  = fault.New(fault.ErrInvalid, "the file is neither a bundle of evidence nor an audit log as JSON lines")
	errBundle = fault.New(fault.ErrInvalid, "the bundle of evidence is not genuine")
	errNoKey  = fault.New(fault.ErrInvalid, "a bundle cannot be verified: evidence is off, or its signer does not reveal the public key")
)

// read takes in a file. A bundle is verified first.
func (a again) read(file io.ReadSeeker, key string) error {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	var tenant uuid.UUID // of the bundle
	for n := 0; lines.Scan(); n++ {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return errLines
		}
		switch {
		case n == 0 && l.Bundle != "":
			if err := verify(file, key); err != nil {
				return err
			}
			lines = bufio.NewScanner(file)
			lines.Buffer(nil, maxLine)
			tenant = l.Tenant
		case l.Entry != nil:
			a.add(tenant, l.Entry)
		case tenant == uuid.UUID{}:
			if l.EntityID == "" || l.TenantID == (uuid.UUID{}) || l.ID == (uuid.UUID{}) {
				return errLines
			}
			a.add(l.TenantID, &l.entry)
		}
	}
	return lines.Err()
}

// verify verifies a bundle, and returns to its beginning.
func verify(file io.ReadSeeker, key string) error {
	if key == "" {
		return errNoKey
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	report, err := evidence.Verify(file, key, nil)
	if err != nil || !report.OK() {
		return errBundle
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// add takes in an entry. If the same was withdrawn several times, the newest
// entry counts.
func (a again) add(tenant uuid.UUID, e *entry) {
	kind := e.withdraws()
	switch {
	case kind == "" && e.Operation == audit.Update:
		a.of(tenant).change(tenant, e)
		return
	case kind == "":
		return
	}
	w, id := a.of(tenant).withdrawn, e.EntityID
	if kind == ofOneKey {
		key, _ := audit.DeletedKey(e.Message)
		id = key.String()
	}
	if w[kind] == nil {
		w[kind] = map[string]time.Time{}
	}
	if e.CreatedAt.After(w[kind][id]) {
		w[kind][id] = e.CreatedAt
	}
}

// of returns the history of a tenant.
func (a again) of(tenant uuid.UUID) *history {
	if a[tenant] == nil {
		a[tenant] = &history{withdrawn{}, map[Held]*changes{}}
	}
	return a[tenant]
}

// withdrawing is how records of one kind are withdrawn again.
type withdrawing struct {
	kind  string
	named map[string]time.Time
	count *int
	// due reports whether a record still has to be withdrawn.
	due func(ctx context.Context, op *core.Op, rec *storage.Record) (bool, error)
	do  func(ctx context.Context, op *core.Op, id uuid.UUID) error
}

// withdrawAgain deletes applications, replaces keys and ends sessions of one
// tenant, and counts them in out.
func withdrawAgain(ctx context.Context, op *core.Op, w withdrawn, dry bool, out *ErasedAgain) error {
	var errs []error
	for _, one := range []withdrawing{
		{audit.Application, w[ofApplication], &out.Applications,
			always, applications.All.Delete},
		{audit.Application, w[ofKey], &out.Keys, w.oldKey, func(ctx context.Context, op *core.Op, id uuid.UUID) error {
			_, err := applications.RegenerateKey(ctx, op, id) // the new key is discarded
			return err
		}},
		{core.KindKey, w[ofOneKey], &out.Keys, always, applications.WithdrawKey},
		{audit.Session, w[ofSession], &out.Sessions,
			func(_ context.Context, op *core.Op, rec *storage.Record) (bool, error) {
				return rec.ExpiresAt.After(op.Now), nil
			}, sessions.Delete},
		{audit.Proxy, w[ofProxy], &out.Proxies, always, relay.Proxies.Delete},
		{audit.Reactor, w[ofReactor], &out.Reactors, always, runs.Reactors.Delete},
	} {
		errs = append(errs, one.run(ctx, op, dry))
	}
	return errors.Join(errs...)
}

func always(context.Context, *core.Op, *storage.Record) (bool, error) { return true, nil }

// oldKey reports whether an application has a key that was replaced.
func (w withdrawn) oldKey(ctx context.Context, op *core.Op, rec *storage.Record) (bool, error) {
	app, err := applications.Records.Open(ctx, op, rec)
	if core.Unreadable(err) {
		return false, nil // its key does not work
	}
	return err == nil && !app.HasKeySince(w[ofKey][app.ID.String()]), err
}

// run withdraws the records that exist.
func (w *withdrawing) run(ctx context.Context, op *core.Op, dry bool) error {
	for texts := range slices.Chunk(slices.Sorted(maps.Keys(w.named)), rowsAtOnce) {
		op, err := op.Again(ctx, "")
		if err != nil {
			return err
		}
		var ids []storage.ID
		for _, text := range texts {
			if id, err := uuid.Parse(text); err == nil {
				ids = append(ids, storage.ID(id))
			}
		}
		recs, err := op.DB().Records(ctx, op.TenantID(), w.kind, ids)
		if err != nil {
			return err
		}
		for i := range recs {
			if err := w.one(ctx, op, &recs[i], dry); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *withdrawing) one(ctx context.Context, op *core.Op, rec *storage.Record, dry bool) error {
	due, err := w.due(ctx, op, rec)
	if err != nil || !due {
		return err
	}
	if !dry {
		if err := w.do(ctx, op, uuid.UUID(rec.ID)); errors.Is(err, fault.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	*w.count++
	return nil
}

// eraseAgain erases tokens of one tenant, and returns how many there were.
func eraseAgain(ctx context.Context, op *core.Op, erased map[string]time.Time, p *AgainParams) (int, error) {
	reason := cmp.Or(p.Reason, AgainReason)
	params := Params{IDs: []string{""}, Reason: reason}
	if err := params.check(); err != nil {
		return 0, err
	}
	w := &work{op: op, erasure: Erasure{ID: op.NewID(), Reason: reason, CreatedAt: op.Now}}
	found := 0
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(erased)), againSize) {
		n, err := core.RetryStale(func() (int, error) { return w.pieceAgain(ctx, ids, erased, p.DryRun) })
		if found += n; err != nil {
			return found, err
		}
	}
	if p.DryRun || found == 0 {
		return found, nil
	}
	if err := complete(ctx, w.op, time.Time{}); err != nil {
		return found, err
	}
	return found, w.op.RecordErasure(ctx, &core.RecordedErasure{ID: w.erasure.ID, Reason: reason, Count: int64(found)})
}

// pieceAgain erases the tokens with some ids that are older than their erasure.
func (w *work) pieceAgain(ctx context.Context, ids []string, erased map[string]time.Time, dry bool) (int, error) {
	op, err := w.op.Again(ctx, access.TokenDelete)
	if err != nil {
		return 0, err
	}
	w.op = op
	rows, err := op.DB().Tokens(ctx, op.TenantID(), ids)
	if err != nil {
		return 0, err
	}
	rows = slices.DeleteFunc(rows, func(t storage.Token) bool { return t.CreatedAt.After(erased[t.ID]) })
	rows, err = tokens.Genuine(ctx, op, nil, rows)
	if err != nil || dry || len(rows) == 0 {
		return len(rows), err
	}
	return len(rows), w.erase(ctx, rows)
}
