package evident

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/storage"
)

// ringRow is the name of a tenant's key ring in findings.
const ringRow = "key ring"

// changed is the newest change of a row in the log.
type changed struct {
	index    int64
	entry    uuid.UUID
	revision int64
	deleted  bool
}

// comparison compares the key ring, the applications, the reactors and the proxies
// of a tenant with the revisions in its log.
type comparison struct {
	vault  *core.Vault
	tenant uuid.UUID
	ring   changed
	rows   map[string]map[storage.ID]changed // by kind
}

// compare starts a comparison of a tenant's rows with its log.
func (k *Keeper) compare(tenant uuid.UUID) ledger.Comparison {
	return &comparison{vault: k.vault, tenant: tenant, ring: changed{index: -1}, rows: map[string]map[storage.ID]changed{
		audit.Application: {}, audit.Reactor: {}, audit.Proxy: {},
	}}
}

// Entry adds an entry of the log. Entries of changes that were made while evidence
// was off have no revision, so a row may be newer than its newest entry.
func (c *comparison) Entry(index int64, e *evidence.Entry) {
	revision, ok := audit.Revision(e.Message)
	now := changed{index: index, entry: e.ID, revision: revision, deleted: e.Operation == audit.Delete}
	id, err := uuid.Parse(e.EntityID)
	switch of := c.rows[e.EntityType]; {
	case e.EntityType == audit.Tenant && ok:
		c.ring = now
	case of != nil && err == nil && (ok || now.deleted):
		of[storage.ID(id)] = now
	}
}

// Behind returns the rows that are older than their newest log entry. It ignores
// deleted rows, because they grant nothing.
func (c *comparison) Behind(ctx context.Context) ([]evidence.Finding, error) {
	state, err := c.vault.Tenants.Reload(ctx, c.tenant)
	if core.Unreadable(err) { // it was altered, or this node has used a newer ring
		return []evidence.Finding{c.finding(c.ring, ringRow)}, nil
	}
	if err != nil {
		return nil, err
	}
	var found []evidence.Finding
	if state.Ring.Revision() < c.ring.revision {
		found = append(found, c.finding(c.ring, ringRow))
	}
	op := &core.Op{Caller: c.vault.Owner(c.tenant), State: state, Now: c.vault.Now()}
	for _, kind := range []string{audit.Application, audit.Reactor, audit.Proxy} {
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

// records compares the rows of a kind. It skips rows that cannot be decrypted,
// because reading them raises an alarm.
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
		for i := range recs {
			says := c.rows[kind][recs[i].ID]
			revision, err := op.SealedRevision(ctx, &recs[i])
			switch {
			case core.Unreadable(err):
			case err != nil:
				return nil, err
			case says.deleted || revision < says.revision:
				found = append(found, c.finding(says, kind+" "+uuid.UUID(recs[i].ID).String()))
			}
		}
	}
	return found, nil
}

func (c *comparison) finding(says changed, row string) evidence.Finding {
	return evidence.Finding{Tenant: c.tenant, Index: says.index, EntryID: says.entry, Verdict: evidence.Altered, Row: row}
}
