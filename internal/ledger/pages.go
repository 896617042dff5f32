package ledger

import (
	"context"
	"errors"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// pages yields the rows that read returns, page by page, until a page has fewer
// rows than a full one. last is the last row so far, and nil at first.
func pages[T any](full int, read func(last *T) ([]T, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		var last *T
		for {
			page, err := read(last)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if last = &page[i]; !yield(last, nil) {
					return
				}
			}
			if len(page) < full {
				return
			}
		}
	}
}

// events yields the events of the vault's tree that a query selects.
func (l *Ledger) events(ctx context.Context, q storage.EventQuery) iter.Seq2[*storage.TreeEvent, error] {
	q.Limit = maxStep
	return pages(maxStep, func(last *storage.TreeEvent) ([]storage.TreeEvent, error) {
		if last != nil {
			q.From = last.N + 1
		}
		return l.c.Store.TreeEvents(ctx, q)
	})
}

// eachEvent calls do for the events of the vault's tree that a query selects. It
// skips unreadable ones, which a verification of the vault's tree reports.
func (l *Ledger) eachEvent(ctx context.Context, q storage.EventQuery, do func(index int64, e *evidence.Event)) error {
	for stored, err := range l.events(ctx, q) {
		if err != nil {
			return err
		}
		if e, err := evidence.ParseEvent(stored.Body); err == nil {
			do(stored.N, e)
		}
	}
	return nil
}

// has reports whether one of the events that a query selects is as it should be. The
// rows may have changed since the vault's tree was read, so the tree must have that event.
func (l *Ledger) has(ctx context.Context, vault storage.Tree, q storage.EventQuery, is func(*evidence.Event) bool) (bool, error) {
	in, h := evidence.Checkpoint{Size: vault.Size, Root: evidence.Hash(vault.Root)}, l.hashes(ctx, uuid.UUID{})
	q.To = vault.Size
	for stored, err := range l.events(ctx, q) {
		if err != nil {
			return false, err
		}
		if e, err := evidence.ParseEvent(stored.Body); err != nil || !is(e) {
			continue
		}
		p, err := h.proven(vault.Size, stored.N)
		if err != nil && !errors.Is(err, ErrTampered) {
			return false, err
		}
		if e, err := p.Open(&in); err == nil && is(e) {
			return true, nil
		}
	}
	return false, nil
}

// storedHead is a head of a tenant in the vault's tree.
type storedHead struct {
	*evidence.Event
	index int64
	body  []byte
}

// headsOf yields the heads of a tenant, from an index on.
func (l *Ledger) headsOf(ctx context.Context, tenant uuid.UUID, from int64) iter.Seq2[storedHead, error] {
	about := storage.ID(tenant)
	return func(yield func(storedHead, error) bool) {
		for stored, err := range l.events(ctx, storage.EventQuery{From: from, To: newest, About: &about}) {
			if err != nil {
				yield(storedHead{}, err)
				return
			}
			e, err := evidence.ParseEvent(stored.Body)
			if err == nil && e.Kind == evidence.EventHead && e.Tenant == tenant && !yield(storedHead{e, stored.N, stored.Body}, nil) {
				return
			}
		}
	}
}

// notes yields the stored notes that a query selects.
func (l *Ledger) notes(ctx context.Context, q storage.CheckpointQuery) iter.Seq2[*storage.Checkpoint, error] {
	q.Limit = maxStep
	return pages(maxStep, func(last *storage.Checkpoint) ([]storage.Checkpoint, error) {
		switch {
		case last == nil:
		case q.Oldest:
			q.Above = last.Size
		default:
			q.Below = last.Size
		}
		return l.c.Store.Checkpoints(ctx, q)
	})
}

// storedTrees yields the trees of all tenants.
func (l *Ledger) storedTrees(ctx context.Context) iter.Seq2[*storage.Tree, error] {
	f := storage.TreeFilter{Limit: maxTenants}
	return pages(maxTenants, func(last *storage.Tree) ([]storage.Tree, error) {
		if last != nil {
			f.After = last.Tenant
		}
		return l.c.Store.Trees(ctx, f)
	})
}

// leaf is a stored leaf of a tenant's tree.
type leaf struct {
	batch *storage.Leaves
	j     int // position in the batch
}

func (x leaf) index() int64          { return x.batch.First + int64(x.j) }
func (x leaf) ref() storage.LogRef   { return x.batch.Refs[x.j] }
func (x leaf) id() uuid.UUID         { return uuid.UUID(x.ref().ID) }
func (x leaf) commit() evidence.Hash { return evidence.Hash(x.batch.Hash[x.j]) }
func (x leaf) hash() merkle.Hash     { return evidence.LeafHash(kindOf(x.batch), x.id(), x.commit()) }

// leaves yields the leaves of a tenant's tree from one index up to another, as the
// database has them.
func (l *Ledger) leaves(ctx context.Context, tenant storage.ID, from, to int64) iter.Seq2[leaf, error] {
	return func(yield func(leaf, error) bool) {
		for ; from < to; from += maxStep {
			end := min(from+maxStep, to)
			part, err := l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: tenant, From: from, To: end})
			if err != nil {
				yield(leaf{}, err)
				return
			}
			for i := range part.Leaves {
				for j := range part.Leaves[i].Refs {
					x := leaf{&part.Leaves[i], j}
					if n := x.index(); n >= from && n < end && !yield(x, nil) {
						return
					}
				}
			}
		}
	}
}
