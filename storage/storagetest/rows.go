package storagetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// The times of every test. They have microseconds, the precision of a backend.
var (
	now      = time.Date(2026, 3, 4, 5, 6, 7, 89012000, time.UTC)
	earlier  = now.Add(-time.Hour)
	later    = now.Add(time.Hour)
	leaseEnd = now.Add(time.Minute)
)

// source makes rows that never share a value by chance.
type source struct{ last atomic.Uint64 }

// id returns a UUIDv7 of the time now, higher than all before it.
func (s *source) id() storage.ID { return idAt(now, s.last.Add(1)) }

// idAt returns a UUIDv7 of a time. In the same millisecond, a higher n gives a
// higher id.
func idAt(at time.Time, n uint64) storage.ID {
	var id storage.ID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000|n>>20&0xfff)
	binary.BigEndian.PutUint64(id[8:], 0x8000000000000000|n&0xfffff<<42|n*0x9e3779b97f4a7c15>>22)
	return id
}

func (s *source) hash() storage.Hash { return hashOf(s.last.Add(1)) }

func (s *source) key() storage.Key { return keyOf(s.last.Add(1)) }

// hashOf returns a hash for n. Its bytes look random.
func hashOf(n uint64) storage.Hash {
	var h storage.Hash
	binary.BigEndian.PutUint64(h[:8], (n+1)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(h[8:], (n+1)*0xbf58476d1ce4e5b9)
	return h
}

func keyOf(n uint64) storage.Key {
	var k storage.Key
	low, high := hashOf(n), hashOf(n+1<<40)
	copy(k[:16], low[:])
	copy(k[16:], high[:])
	return k
}

// The sets of containers of every test.
var sets = []storage.ContainerSet{
	{Set: hashOf(1 << 50), Containers: []string{"/general/high/"}},
	{Set: hashOf(2 << 50), Containers: []string{"/pci/high/", "/pci/low/"}},
	{Set: hashOf(3 << 50), Containers: []string{"/bank/'quoted'/", "/größe/", "/a b/"}},
}

// token returns a token with a value in every column, except the two expiries
// and the dedup hash.
func (s *source) token(id string) storage.Token {
	n := s.last.Add(1)
	set := sets[n%uint64(len(sets))]
	return storage.Token{
		Ord:  s.id(),
		ID:   id,
		Type: "token",

		Set:        set.Set,
		Containers: set.Containers,

		Fingerprint: s.key(),
		Expression:  s.hash(),
		Hashes:      []storage.Hash{s.hash(), s.hash()},

		KeyVersion: 1 + int(n%5),
		Body:       fmt.Appendf(nil, "sealed \x00\xff body %d", n),

		CreatedBy:  s.id(),
		CreatedAt:  now,
		ModifiedBy: s.id(),
		ModifiedAt: now.Add(time.Duration(n) * time.Microsecond),

		Rev: 1,
	}
}

// tokenSeries returns n tokens whose ids start with a prefix.
func (s *source) tokenSeries(prefix string, n int) []storage.Token {
	tokens := make([]storage.Token, n)
	for i := range tokens {
		tokens[i] = s.token(fmt.Sprintf("%s%04d", prefix, i))
	}
	return tokens
}

// record returns a record with a value in every column except the expiry.
func (s *source) record(kind, name string) storage.Record {
	n := s.last.Add(1)
	return storage.Record{
		Kind: kind, ID: s.id(), Name: name,
		Key: s.key(), AltKey: s.key(),
		KeyVersion: 1 + int(n%5), Body: fmt.Appendf(nil, "sealed \x00\xff record %d", n),
		CreatedAt: now, Rev: 1,
	}
}

func (s *source) log(entityType, entityID string) storage.Log {
	return storage.Log{
		ID: s.id(), ActorID: s.id(), ActorType: "application", ActorName: "größe's",
		EntityType: entityType, EntityID: entityID,
		Operation: "create", Message: "Token created", Origin: "2001:db8::7", CreatedAt: now, Mac: s.hash(),
	}
}

// claim returns a claim in progress that is live at now.
func (s *source) claim() storage.Claim {
	return storage.Claim{Key: s.key(), Owner: s.id(), LeaseUntil: leaseEnd, ExpiresAt: later}
}

// answered returns a claim with an Answer that is live at now.
func (s *source) answered() storage.Claim {
	c := s.claim()
	c.KeyVersion, c.Answer = 3, []byte("sealed \x00\xff answer")
	return c
}

// job returns a job without a lease.
func (s *source) job(runAt time.Time) storage.Job {
	n := s.last.Add(1)
	return storage.Job{
		ID: s.id(), Kind: "react", RunAt: runAt, Attempts: int(n % 7),
		KeyVersion: 1 + int(n%5), Payload: fmt.Appendf(nil, "sealed \x00\xff job %d", n),
	}
}

// updateOf returns the update that turns a stored token into another one.
func updateOf(stored, next storage.Token) storage.TokenUpdate {
	next.Ord = stored.Ord
	return storage.TokenUpdate{Rev: stored.Rev, OldSet: stored.Set, Token: next}
}

func deleteOf(t storage.Token) storage.TokenDelete {
	return storage.TokenDelete{Ord: t.Ord, Rev: t.Rev, Set: t.Set, Type: t.Type}
}

func insert(tenant storage.ID, tokens ...storage.Token) *storage.Change {
	return &storage.Change{Tenant: tenant, Now: now, InsertTokens: tokens}
}

func take(tenant storage.ID, c storage.Claim) *storage.Change {
	return claimChange(tenant, storage.ClaimTake, c)
}

func claimChange(tenant storage.ID, op storage.ClaimOp, c storage.Claim) *storage.Change {
	return &storage.Change{Tenant: tenant, Now: now, Claim: &storage.ClaimChange{Op: op, Claim: c}}
}

func tokenIDs(tokens []storage.Token) []string {
	ids := make([]string, len(tokens))
	for i := range tokens {
		ids[i] = tokens[i].ID
	}
	return ids
}

func compareIDs(a, b storage.ID) int { return bytes.Compare(a[:], b[:]) }

// ofTenant returns a row as reads return it.
func ofTenant(tenant storage.ID, t storage.Token) storage.Token {
	t.Tenant = tenant
	return t
}

// jobKey returns the key of a job in Sealed.
func jobKey(id storage.ID) (key storage.Key) {
	copy(key[:], id[:])
	return key
}
