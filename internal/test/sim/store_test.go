//go:build !race

package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

// store is the database as a node sees it.
type store struct {
	*model.Store
	n *node
}

var (
	_ storage.Storage     = (*store)(nil)
	_ storage.TreeStorage = (*store)(nil)
	_ storage.ReadLogger  = (*store)(nil)
)

var (
	errGone = fmt.Errorf("%w: the history is over", storage.ErrClosed)
	// errFault means that a call was not carried out.
	errFault = fmt.Errorf("%w: a fault of the simulator", storage.ErrUnavailable)
	// errLost means that the outcome of a call is unknown.
	errLost = fmt.Errorf("%w: the change may or may not have been applied, because of a fault of the simulator", storage.ErrUnavailable)
)

func outcomeText(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// short returns the end of an id, for the trace.
func short(id storage.ID) string {
	if id.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%x", id[12:])
}

// ask makes a read of the database.
func ask[T any](ctx context.Context, s *store, what string, do func() (T, error)) (result T, err error) {
	return call1(ctx, s, aRead, what, do)
}

func call1[T any](ctx context.Context, s *store, kind seam, what string, do func() (T, error)) (result T, err error) {
	err = s.n.through(ctx, kind, what, func() (err error) {
		result, err = do()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return result, nil
}

// Write applies a change. If its outcome is unknown, the change says so.
func (s *store) Write(ctx context.Context, c *storage.Change) error {
	err := s.n.through(ctx, aWrite, "Write "+describe(c), func() error {
		if c.Unsure && s.written(c) {
			return nil
		}
		problem := s.n.w.audit(s, c)
		err := s.Store.Write(ctx, c)
		if err == nil && problem != "" {
			s.n.w.failf("a change of %s: %s: %s", s.n.name(), problem, describe(c))
		}
		return err
	})
	if errors.Is(err, errLost) {
		return s.lost(ctx, c)
	}
	return err
}

// lost returns the error for a change whose outcome is unknown. A backend repeats a
// change without log rows.
func (s *store) lost(ctx context.Context, c *storage.Change) error {
	if len(c.Logs) == 0 {
		return s.Store.Write(ctx, c)
	}
	c.Unsure = true
	if c.Late(time.Now()) {
		return storage.ErrLate
	}
	return errLost
}

// written reports whether a change was applied.
func (s *store) written(c *storage.Change) bool {
	if len(c.Logs) == 0 {
		return false
	}
	found, err := s.Store.LogsByRef(context.Background(), c.Tenant, []storage.LogRef{{ID: c.Logs[0].ID, Seq: storage.AnySeq}})
	return err == nil && len(found) > 0
}

// describe returns a summary of a change.
func describe(c *storage.Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", short(c.Tenant))
	for n, what := range []string{"insert", "update", "delete"} {
		if rows := []int{len(c.InsertTokens), len(c.UpdateTokens), len(c.DeleteTokens)}[n]; rows > 0 {
			fmt.Fprintf(&b, " %s %d tokens,", what, rows)
		}
	}
	for i := range c.InsertJobs {
		fmt.Fprintf(&b, " insert job %s,", short(c.InsertJobs[i].ID))
	}
	for i := range c.UpdateJobs {
		fmt.Fprintf(&b, " update job %s,", short(c.UpdateJobs[i].Job.ID))
	}
	for _, d := range c.DeleteJobs {
		fmt.Fprintf(&b, " delete job %s,", short(d.ID))
	}
	for _, r := range c.InsertRecords {
		fmt.Fprintf(&b, " insert %s %s,", r.Kind, short(r.ID))
	}
	for _, u := range c.UpdateRecords {
		fmt.Fprintf(&b, " update %s %s from %d,", u.Record.Kind, short(u.Record.ID), u.Rev)
	}
	for _, d := range c.DeleteRecords {
		fmt.Fprintf(&b, " delete %s %s,", d.Kind, short(d.ID))
	}
	if c.Claim != nil {
		fmt.Fprintf(&b, " %s claim %x,", []string{"", "take", "finish", "drop"}[c.Claim.Op], c.Claim.Key[:4])
	}
	if len(c.Reseal) > 0 {
		fmt.Fprintf(&b, " reseal %d,", len(c.Reseal))
	}
	for _, l := range c.Logs {
		fmt.Fprintf(&b, " log %s %s %s,", l.Operation, l.EntityType, ending(l.EntityID))
	}
	if c.Unsure {
		b.WriteString(" unsure,")
	}
	return strings.TrimSuffix(b.String(), ",")
}

// ending returns the last characters of an id.
func ending(id string) string { return id[max(0, len(id)-12):] }

// Purge implements storage.Storage.
func (s *store) Purge(ctx context.Context, tenant storage.ID, limit int) (bool, error) {
	return call1(ctx, s, aWrite, "Purge "+short(tenant), func() (bool, error) { return s.Store.Purge(ctx, tenant, limit) })
}

// Sweep implements storage.Storage.
func (s *store) Sweep(ctx context.Context, now time.Time, limit int) (bool, error) {
	return call1(ctx, s, aWrite, "Sweep", func() (bool, error) { return s.Store.Sweep(ctx, now, limit) })
}

// LogTenants implements storage.Storage.
func (s *store) LogTenants(ctx context.Context, before time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	return ask(ctx, s, "LogTenants", func() ([]storage.ID, error) { return s.Store.LogTenants(ctx, before, after, limit) })
}

// DeleteLogs implements storage.Storage.
func (s *store) DeleteLogs(ctx context.Context, tenant storage.ID, before time.Time, limit int) (int, error) {
	return call1(ctx, s, aWrite, "DeleteLogs "+short(tenant), func() (int, error) { return s.Store.DeleteLogs(ctx, tenant, before, limit) })
}

// Tokens implements storage.Storage.
func (s *store) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	return ask(ctx, s, fmt.Sprintf("Tokens %s %s", short(tenant), endings(ids)), func() ([]storage.Token, error) {
		rows, err := s.Store.Tokens(ctx, tenant, ids)
		slices.SortFunc(rows, func(a, b storage.Token) int { return bytes.Compare(a.Ord[:], b.Ord[:]) })
		return rows, err
	})
}

func endings(ids []string) string {
	var all []string
	for _, id := range ids[:min(len(ids), 3)] {
		all = append(all, ending(id))
	}
	if len(ids) > 3 {
		all = append(all, fmt.Sprint("and ", len(ids)-3))
	}
	return strings.Join(all, " ")
}

// ReadToken implements storage.ReadLogger.
func (s *store) ReadToken(ctx context.Context, r storage.Reading) (storage.Token, error) {
	return call1(ctx, s, aWrite, fmt.Sprintf("ReadToken %s %s", short(r.Tenant), ending(r.ID)), func() (storage.Token, error) { return s.Store.ReadToken(ctx, r) })
}

// Duplicate implements storage.Storage.
func (s *store) Duplicate(ctx context.Context, tenant storage.ID, d storage.Duplicate) (*storage.Token, error) {
	return ask(ctx, s, "Duplicate "+short(tenant), func() (*storage.Token, error) { return s.Store.Duplicate(ctx, tenant, d) })
}

type tokenPage struct {
	page  []storage.Token
	total int
}

// ListTokens implements storage.Storage.
func (s *store) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	p, err := ask(ctx, s, "ListTokens "+short(f.Tenant), func() (p tokenPage, err error) {
		p.page, p.total, err = s.Store.ListTokens(ctx, f)
		return p, err
	})
	return p.page, p.total, err
}

// ContainerSets implements storage.Storage.
func (s *store) ContainerSets(ctx context.Context, tenant storage.ID) ([]storage.ContainerSet, error) {
	return ask(ctx, s, "ContainerSets "+short(tenant), func() ([]storage.ContainerSet, error) {
		sets, err := s.Store.ContainerSets(ctx, tenant)
		slices.SortFunc(sets, func(a, b storage.ContainerSet) int { return bytes.Compare(a.Set[:], b.Set[:]) })
		return sets, err
	})
}

// Expired implements storage.Storage.
func (s *store) Expired(ctx context.Context, f storage.ExpiredFilter) (storage.Expired, error) {
	return ask(ctx, s, "Expired", func() (storage.Expired, error) { return s.Store.Expired(ctx, f) })
}

type logPage struct {
	page  []storage.Log
	total int
	next  storage.LogPlace
}

// ListLogs implements storage.Storage.
func (s *store) ListLogs(ctx context.Context, f storage.LogFilter) ([]storage.Log, int, error) {
	p, err := ask(ctx, s, "ListLogs "+short(f.Tenant), func() (p logPage, err error) {
		p.page, p.total, err = s.Store.ListLogs(ctx, f)
		return p, err
	})
	return p.page, p.total, err
}

// FollowLogs implements storage.Storage.
func (s *store) FollowLogs(ctx context.Context, f storage.LogFollowing) ([]storage.Log, storage.LogPlace, error) {
	p, err := ask(ctx, s, "FollowLogs "+short(f.Tenant), func() (p logPage, err error) {
		p.page, p.next, err = s.Store.FollowLogs(ctx, f)
		return p, err
	})
	return p.page, p.next, err
}

// Records implements storage.Storage.
func (s *store) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	return ask(ctx, s, fmt.Sprintf("Records %s %s", short(tenant), kind), func() ([]storage.Record, error) {
		rows, err := s.Store.Records(ctx, tenant, kind, ids)
		slices.SortFunc(rows, func(a, b storage.Record) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		return rows, err
	})
}

// Lookup implements storage.Storage.
func (s *store) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	return ask(ctx, s, fmt.Sprintf("Lookup %x", key[:4]), func() (storage.Record, error) { return s.Store.Lookup(ctx, key) })
}

type recordPage struct {
	page  []storage.Record
	total int
}

// ListRecords implements storage.Storage.
func (s *store) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	p, err := ask(ctx, s, fmt.Sprintf("ListRecords %s %s", short(f.Tenant), f.Kind), func() (p recordPage, err error) {
		p.page, p.total, err = s.Store.ListRecords(ctx, f)
		return p, err
	})
	return p.page, p.total, err
}

// Count implements storage.Storage.
func (s *store) Count(ctx context.Context, f storage.CountFilter) (storage.Counts, error) {
	return ask(ctx, s, "Count "+short(f.Tenant), func() (storage.Counts, error) {
		n, err := s.Store.Count(ctx, f)
		slices.SortFunc(n.Tokens, func(a, b storage.TokenCount) int {
			return cmp.Or(bytes.Compare(a.Set[:], b.Set[:]), cmp.Compare(a.Type, b.Type))
		})
		return n, err
	})
}

// Claim implements storage.Storage.
func (s *store) Claim(ctx context.Context, tenant storage.ID, key storage.Key) (storage.Claim, error) {
	return ask(ctx, s, fmt.Sprintf("Claim %s %x", short(tenant), key[:4]), func() (storage.Claim, error) { return s.Store.Claim(ctx, tenant, key) })
}

// DueTenants implements storage.Storage.
func (s *store) DueTenants(ctx context.Context, now time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	return ask(ctx, s, "DueTenants", func() ([]storage.ID, error) { return s.Store.DueTenants(ctx, now, after, limit) })
}

// LeaseJobs implements storage.Storage.
func (s *store) LeaseJobs(ctx context.Context, l storage.Lease) ([]storage.Job, error) {
	return call1(ctx, s, aWrite, fmt.Sprintf("LeaseJobs %s %d", short(l.Tenant), l.Limit), func() ([]storage.Job, error) { return s.Store.LeaseJobs(ctx, l) })
}

// Jobs implements storage.Storage.
func (s *store) Jobs(ctx context.Context, f storage.JobFilter) ([]storage.Job, error) {
	return ask(ctx, s, "Jobs "+short(f.Tenant), func() ([]storage.Job, error) { return s.Store.Jobs(ctx, f) })
}

// SealedRows implements storage.Storage.
func (s *store) SealedRows(ctx context.Context, f storage.SealedFilter) ([]storage.Sealed, error) {
	return ask(ctx, s, "SealedRows "+short(f.Tenant), func() ([]storage.Sealed, error) { return s.Store.SealedRows(ctx, f) })
}

// ClockAhead implements storage.Storage.
func (s *store) ClockAhead(ctx context.Context) (time.Duration, error) {
	return ask(ctx, s, "ClockAhead", func() (time.Duration, error) { return s.n.skew, nil })
}

// Ping implements storage.Storage.
func (s *store) Ping(ctx context.Context) error {
	return s.n.through(ctx, aRead, "Ping", func() error { return s.Store.Ping(ctx) })
}

// Trees implements storage.TreeStorage.
func (s *store) Trees(ctx context.Context, f storage.TreeFilter) ([]storage.Tree, error) {
	return ask(ctx, s, fmt.Sprintf("Trees %d", len(f.Tenants)), func() ([]storage.Tree, error) { return s.Store.Trees(ctx, f) })
}

// ReadTree implements storage.TreeStorage.
func (s *store) ReadTree(ctx context.Context, q storage.TreeQuery) (storage.TreePart, error) {
	return ask(ctx, s, fmt.Sprintf("ReadTree %s %d to %d", short(q.Tenant), q.From, q.To), func() (storage.TreePart, error) { return s.Store.ReadTree(ctx, q) })
}

// TreeEvents implements storage.TreeStorage.
func (s *store) TreeEvents(ctx context.Context, q storage.EventQuery) ([]storage.TreeEvent, error) {
	return ask(ctx, s, fmt.Sprintf("TreeEvents %d to %d", q.From, q.To), func() ([]storage.TreeEvent, error) { return s.Store.TreeEvents(ctx, q) })
}

// Checkpoints implements storage.TreeStorage.
func (s *store) Checkpoints(ctx context.Context, q storage.CheckpointQuery) ([]storage.Checkpoint, error) {
	return ask(ctx, s, "Checkpoints", func() ([]storage.Checkpoint, error) { return s.Store.Checkpoints(ctx, q) })
}

// LogsByRef implements storage.TreeStorage.
func (s *store) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	return ask(ctx, s, fmt.Sprintf("LogsByRef %s %d", short(tenant), len(refs)), func() ([]storage.Log, error) { return s.Store.LogsByRef(ctx, tenant, refs) })
}

// WriteTree implements storage.TreeStorage.
func (s *store) WriteTree(ctx context.Context, c *storage.TreeChange) error {
	what := fmt.Sprintf("WriteTree %s %d to %d, %d events", short(c.Was.Tenant), c.Was.Size, c.Tree.Size, len(c.Events))
	return s.n.through(ctx, aWrite, what, func() error { return s.Store.WriteTree(ctx, c) })
}

// Close closes the handle, also on a node that stopped.
func (s *store) Close() error { return s.Store.Close() }

// tenantID returns a tenant's id as the storage has it.
func tenantID(id uuid.UUID) storage.ID { return storage.ID(id) }
