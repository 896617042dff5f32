package notary

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// ringRow is the name of a tenant's key ring in findings.
const ringRow = "key ring"

// logged is what the log says about a row: its highest revision, or its deletion,
// which is final.
type logged struct {
	index    int64
	entry    evidence.Entry
	revision int64
	deleted  bool
	known    bool // the log has a revision or the deletion
}

// comparison compares the key ring, the settings, the applications, the reactors, the
// proxies and the sessions of a tenant with the revisions in its log.
type comparison struct {
	vault  *core.Vault
	tenant uuid.UUID
	ring   logged
	rows   map[string]map[storage.ID]logged // by kind
	// sessions are in the database, in order. Others are not compared, because a log may
	// have many more.
	sessions []storage.ID
}

// compare starts a comparison of a tenant's rows with its log.
func (k *Keeper) compare(ctx context.Context, tenant uuid.UUID) (ledger.Comparison, error) {
	c := newComparison(k.vault, tenant)
	for rec, err := range storage.AllRecords(ctx, k.vault.Store, storage.RecordFilter{Tenant: storage.ID(tenant), Kind: audit.Session, Limit: comparedRows}) {
		if err != nil {
			return nil, err
		}
		c.sessions = append(c.sessions, rec.ID)
	}
	slices.SortFunc(c.sessions, compareIDs)
	return c, nil
}

func newComparison(v *core.Vault, tenant uuid.UUID) *comparison {
	return &comparison{vault: v, tenant: tenant, ring: logged{index: -1}, rows: map[string]map[storage.ID]logged{
		audit.Application: {}, audit.Session: {}, audit.Reactor: {}, audit.Proxy: {}, audit.Tenant: {},
	}}
}

func compareIDs(a, b storage.ID) int { return bytes.Compare(a[:], b[:]) }

// settingsChanged is the message of entries about the name and the settings of a tenant.
// Other entries with a revision are about its key ring.
var settingsChanged = audit.Message(audit.Tenant, audit.Update)

// sessionRevision returns the revision of a session in an entry. The entries of sessions
// name none: a session is created, and then authorized once.
func sessionRevision(operation string) (revision int64, ok bool) {
	switch operation {
	case audit.Create:
		return 0, true
	case audit.Authorize:
		return 1, true
	default:
		return 0, false
	}
}

// Entry adds an entry of the log. Entries of changes that were made while evidence
// was off have no revision, so a row may be newer than its newest entry.
func (c *comparison) Entry(index int64, e *evidence.Entry) {
	revision, ok := audit.Revision(e.Message)
	if e.EntityType == audit.Session {
		revision, ok = sessionRevision(e.Operation)
	}
	now := logged{index, *e, revision, e.Operation == audit.Delete || e.Operation == audit.Expire, true}
	id, err := uuid.Parse(e.EntityID)
	switch of := c.rows[e.EntityType]; {
	case e.EntityType == audit.Session && !c.exists(storage.ID(id)):
	case e.EntityType == audit.Tenant && ok && e.Message != audit.WithRevision(settingsChanged, revision):
		c.ring.add(now)
	case of != nil && err == nil && (ok || now.deleted):
		was := of[storage.ID(id)]
		was.add(now)
		of[storage.ID(id)] = was
	}
}

// exists reports whether the database has a session.
func (c *comparison) exists(session storage.ID) bool {
	_, ok := slices.BinarySearchFunc(c.sessions, session, compareIDs)
	return ok
}

// add takes in a later entry about the row.
func (l *logged) add(now logged) {
	if !l.known || !l.deleted && (now.deleted || now.revision >= l.revision) {
		*l = now
	}
}

// Behind returns the rows that contradict the log: a row must have the newest
// revision of the log or a newer one, and a deleted row must not exist.
func (c *comparison) Behind(ctx context.Context) ([]evidence.Finding, error) {
	kinds := []string{audit.Application, audit.Session, audit.Reactor, audit.Proxy, audit.Tenant}
	state, err := c.vault.Tenants.Reload(ctx, c.tenant)
	if core.KeyDenied(err) { // the others do not open
		kinds = kinds[:2]
		state, err = c.vault.Tenants.Front(ctx, c.tenant)
	}
	if core.Unreadable(err) { // it was altered, or this node has used a newer ring
		return []evidence.Finding{c.finding(c.ring, ringRow, evidence.Altered)}, nil
	}
	if errors.Is(err, fault.ErrNoTenant) {
		return nil, ledger.ErrGone
	}
	if err != nil {
		return nil, err
	}
	var found []evidence.Finding
	if state.Ring.Revision() < c.ring.revision {
		found = append(found, c.finding(c.ring, ringRow, evidence.Altered))
	}
	op := &core.Op{Caller: c.vault.Owner(c.tenant), State: state, Now: c.vault.Now()}
	for _, kind := range kinds {
		behind, err := c.records(ctx, op, kind)
		if err != nil {
			return nil, err
		}
		found = append(found, behind...)
	}
	return found, nil
}

// comparedRows is how many rows are read per query.
const comparedRows = 200

// records compares the rows of a kind.
func (c *comparison) records(ctx context.Context, op *core.Op, kind string) (found []evidence.Finding, err error) {
	ids := make([]storage.ID, 0, len(c.rows[kind]))
	for id := range c.rows[kind] {
		ids = append(ids, id)
	}
	for some := range slices.Chunk(ids, comparedRows) {
		recs, err := c.vault.Store.Records(ctx, op.TenantID(), kind, some)
		if err != nil {
			return nil, err
		}
		byID := map[storage.ID]*storage.Record{}
		for i := range recs {
			byID[recs[i].ID] = &recs[i]
		}
		for _, id := range some {
			if kind == audit.Session && byID[id] == nil {
				continue // it has ended during the verification
			}
			verdict, err := c.judge(ctx, op, c.rows[kind][id], byID[id])
			if err != nil {
				return nil, err
			}
			if verdict != "" {
				found = append(found, c.finding(c.rows[kind][id], kind+" "+uuid.UUID(id).String(), verdict))
			}
		}
	}
	return found, nil
}

// judge returns what is wrong with a row, which is nil if it does not exist.
func (c *comparison) judge(ctx context.Context, op *core.Op, says logged, rec *storage.Record) (evidence.Verdict, error) {
	switch {
	case rec == nil && says.deleted:
		return "", nil
	case rec == nil:
		return evidence.Missing, nil
	case says.deleted:
		return evidence.Altered, nil
	}
	revision, err := op.SealedRevision(ctx, rec)
	switch {
	case core.Unreadable(err), err == nil && revision < says.revision:
		return evidence.Altered, nil
	default:
		return "", err
	}
}

func (c *comparison) finding(says logged, row string, verdict evidence.Verdict) evidence.Finding {
	f := evidence.Finding{Tenant: c.tenant, Index: says.index, EntryID: says.entry.ID, Verdict: verdict, Row: row}
	if says.known {
		f.Entry = &says.entry
	}
	return f
}
