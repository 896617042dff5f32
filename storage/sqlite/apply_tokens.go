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
		if err == nil && n == 0 {
			err = w.either(i, storage.TokenIDTaken, storage.DuplicateTaken, stmtFindTakenToken, w.tenant, t.ID, t.Ord[:])
		}
		if err != nil {
			return err
		}
		if err := w.eachHash(stmtInsertHash, ord, t.Hashes); err != nil {
			return err
		}
		if err := w.ensureSet(&c.Tenant, t); err != nil {
			return err
		}
		w.counts.addToken(c.Tenant, t.Set, t.Type, 1)
	}
	return nil
}

// eachHash runs a statement for each hash of a token.
func (w *writer) eachHash(stmt statementID, ord any, hashes []storage.Hash) error {
	for i := range hashes {
		if _, err := w.exec(stmt, w.tenant, hashes[i][:], ord); err != nil {
			return err
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
		return err
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
	if err := w.read(storage.TokenStale, index, stmtReadHashes, []*[]byte{&old}, w.tenant, ord, u.Rev); err != nil {
		return err
	}
	if err := w.replaceToken(ord, u, index); err != nil {
		return err
	}
	before := splitHashes(old)
	if err := w.eachHash(stmtDeleteHash, ord, without(before, t.Hashes)); err != nil {
		return err
	}
	return w.eachHash(stmtInsertHash, ord, without(t.Hashes, before))
}

// replaceToken runs the update. It changes no row if no row has the revision,
// or if the new Dedup hash is taken.
func (w *writer) replaceToken(ord any, u *storage.TokenUpdate, index int) error {
	w.row = w.row[:0]
	sqlstore.PutTokenReplaced(&w.row, u)
	if n, err := w.exec(stmtUpdateToken, append(w.row, w.tenant, ord, u.Rev)...); err != nil || n > 0 {
		return err
	}
	return w.either(index, storage.DuplicateTaken, storage.TokenStale, stmtFindToken, w.tenant, ord, u.Rev)
}

func (w *writer) deleteTokens(c *storage.Change) error {
	for i := range c.DeleteTokens {
		d := &c.DeleteTokens[i]
		ord := any(d.Ord[:])
		var old []byte
		err := w.read(storage.TokenStale, i, stmtDeleteToken, []*[]byte{&old}, w.tenant, ord, d.Rev)
		if err != nil {
			return err
		}
		w.wrote = true
		if err := w.eachHash(stmtDeleteHash, ord, splitHashes(old)); err != nil {
			return err
		}
		w.counts.addToken(c.Tenant, d.Set, d.Type, -1)
	}
	return nil
}
