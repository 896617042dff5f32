package erase

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/internal/verbs"
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
	// VerifierKey verifies bundles. Without it, they are refused.
	VerifierKey string
}

// ErasedAgain is the outcome of Again.
type ErasedAgain struct {
	Erased int // tokens that the files say were erased
	Count  int // of these, tokens that were there again
}

// Again erases the tokens that files say were erased. After a restore the database
// holds them again. A token that was created after the erasure of another one with
// the same id stays.
func Again(ctx context.Context, v *core.Vault, p *AgainParams) (*ErasedAgain, error) {
	all := again{}
	for _, file := range p.Files {
		if err := all.read(file, p.VerifierKey); err != nil {
			return nil, err
		}
	}
	out := &ErasedAgain{}
	for _, tenant := range slices.SortedFunc(maps.Keys(all), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		out.Erased += len(all[tenant])
		n, err := core.Do(ctx, v.Owner(tenant), &verbs.EraseTokens, func(ctx context.Context, op *core.Op) (int, error) {
			return eraseAgain(ctx, op, all[tenant], p)
		})
		if out.Count += n; err != nil && !errors.Is(err, fault.ErrNoTenant) {
			return out, err
		}
	}
	if v.Ledger == nil || p.DryRun {
		return out, nil
	}
	return out, v.Ledger.ErasedAgain(ctx, int64(out.Count))
}

// again is when tokens were erased, by tenant and id.
type again map[uuid.UUID]map[string]time.Time

// line is a line of a file: the header of a bundle, a leaf of a bundle, or an entry
// of the log.
type line struct {
	Bundle string    `json:"bundle"`
	Tenant uuid.UUID `json:"tenant"`
	Entry  *entry    `json:"entry"`
	entry
}

type entry struct {
	TenantID  uuid.UUID `json:"tenant_id"`
	EntityID  string    `json:"entity_id"`
	Operation string    `json:"operation"`
	Message   string    `json:"message"`
	CreatedAt time.Time `json:"created_at"`
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
			a.note(tenant, l.Entry)
		case tenant == uuid.UUID{}:
			if l.EntityID == "" || l.TenantID == (uuid.UUID{}) {
				return errLines
			}
			a.note(l.TenantID, &l.entry)
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

// note takes in an entry. Of several erasures of an id the newest counts.
func (a again) note(tenant uuid.UUID, e *entry) {
	if e.Operation != audit.Delete || e.Message != audit.TokenErased {
		return
	}
	if a[tenant] == nil {
		a[tenant] = map[string]time.Time{}
	}
	if e.CreatedAt.After(a[tenant][e.EntityID]) {
		a[tenant][e.EntityID] = e.CreatedAt
	}
}

// eraseAgain erases tokens of one tenant, and returns how many there were.
func eraseAgain(ctx context.Context, op *core.Op, erased map[string]time.Time, p *AgainParams) (int, error) {
	reason := p.Reason
	if reason == "" {
		reason = AgainReason
	}
	params := Params{Query: "again", Reason: reason}
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
	if err := settle(ctx, w.op, time.Time{}); err != nil {
		return found, err
	}
	return found, w.op.RecordErasure(ctx, w.erasure.ID, reason, int64(found))
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
