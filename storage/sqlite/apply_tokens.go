package sqlite

import (
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

func (w *writer) insertTokens(c *storage.Change) error {
	for i := range c.InsertTokens {
		t := &c.InsertTokens[i]
		sqlstore.PutToken(w.newRow(), t)
		ord := w.row[1]
		n, err := w.exec(stmtInsertToken, w.row...)
		if err != nil {
			return describe("writing", err)
		}
		if n == 0 {
			return w.takenBy(t, i)
		}
		if err := w.insertHashes(ord, t.Hashes); err != nil {
			return err
		}
		if err := w.ensureSet(&c.Tenant, t); err != nil {
			return err
		}
		w.counts.addToken(c.Tenant, t.Set, t.Type, 1)
	}
	return nil
}

// takenBy returns the conflict on the unique key that is taken.
func (w *writer) takenBy(t *storage.Token, index int) error {
	taken, err := w.found(stmtFindTakenToken, nil, w.tenant, t.ID, t.Ord[:])
	switch {
	case err != nil:
		return describe("writing", err)
	case taken:
		return conflict(storage.TokenIDTaken, index)
	default:
		return conflict(storage.DuplicateTaken, index)
	}
}

func (w *writer) insertHashes(ord any, hashes []storage.Hash) error {
	for i := range hashes {
		if _, err := w.exec(stmtInsertHash, w.tenant, hashes[i][:], ord); err != nil {
			return describe("writing", err)
		}
	}
	return nil
}

func (w *writer) deleteHashes(ord any, hashes []storage.Hash) error {
	for i := range hashes {
		if _, err := w.exec(stmtDeleteHash, w.tenant, hashes[i][:], ord); err != nil {
			return describe("writing", err)
		}
	}
	return nil
}

// ensureSet stores the set of a token, unless it is known to be stored.
func (w *writer) ensureSet(tenant *storage.ID, t *storage.Token) error {
	key := setKey{*tenant, t.Set}
	if _, known := w.knownSets[key]; known || len(w.sets) > 0 && w.sets[len(w.sets)-1] == key {
		return nil
	}
	if _, err := w.exec(stmtInsertSet, w.tenant, t.Set[:], sqlstore.JoinContainers(t.Containers)); err != nil {
		return describe("writing", err)
	}
	w.sets = append(w.sets, key)
	return nil
}

func (w *writer) updateTokens(c *storage.Change) error {
	for i := range c.UpdateTokens {
		u := &c.UpdateTokens[i]
		if err := w.updateToken(u, i); err != nil {
			return err
		}
		t := &u.Token
		if err := w.ensureSet(&c.Tenant, t); err != nil {
			return err
		}
		if t.Set != u.OldSet {
			w.counts.addToken(c.Tenant, u.OldSet, t.Type, -1)
			w.counts.addToken(c.Tenant, t.Set, t.Type, 1)
		}
	}
	return nil
}

func (w *writer) updateToken(u *storage.TokenUpdate, index int) error {
	t := &u.Token
	ord := any(t.Ord[:])
	if u.KeepHashes {
		return w.replaceToken(ord, u, index)
	}
	var old []byte
	found, err := w.found(stmtReadHashes, []*[]byte{&old}, w.tenant, ord, u.Rev)
	switch {
	case err != nil:
		return describe("writing", err)
	case !found:
		return conflict(storage.TokenStale, index)
	}
	if err := w.replaceToken(ord, u, index); err != nil {
		return err
	}
	before := splitHashes(old)
	if err := w.deleteHashes(ord, without(before, t.Hashes)); err != nil {
		return err
	}
	return w.insertHashes(ord, without(t.Hashes, before))
}

// replaceToken runs the update. It changes no row if no row has the revision,
// or if the new Dedup hash is taken.
func (w *writer) replaceToken(ord any, u *storage.TokenUpdate, index int) error {
	w.row = w.row[:0]
	sqlstore.PutTokenReplaced(&w.row, u)
	n, err := w.exec(stmtUpdateToken, append(w.row, w.tenant, ord, u.Rev)...)
	if err != nil {
		return describe("writing", err)
	}
	if n > 0 {
		return nil
	}
	found, err := w.found(stmtFindToken, nil, w.tenant, ord, u.Rev)
	switch {
	case err != nil:
		return describe("writing", err)
	case found:
		return conflict(storage.DuplicateTaken, index)
	default:
		return conflict(storage.TokenStale, index)
	}
}

func (w *writer) deleteTokens(c *storage.Change) error {
	for i := range c.DeleteTokens {
		d := &c.DeleteTokens[i]
		ord := any(d.Ord[:])
		var old []byte
		found, err := w.found(stmtDeleteToken, []*[]byte{&old}, w.tenant, ord, d.Rev)
		if err != nil {
			return describe("writing", err)
		}
		if !found {
			return conflict(storage.TokenStale, i)
		}
		w.wrote = true
		if err := w.deleteHashes(ord, splitHashes(old)); err != nil {
			return err
		}
		w.counts.addToken(c.Tenant, d.Set, d.Type, -1)
	}
	return nil
}
