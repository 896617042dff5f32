// Package sealed says where each sealed part of a row belongs, and seals rows
// again under another key.
//
// A place is bound to what stands beside the sealed bytes in clear. So an
// attacker who can write to the database can neither move a token to a laxer
// container, nor put their own key's hash beside the rights of another: what was
// moved does not open.
package sealed

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Parts is where TokenPlace and CVCPlace put what a field is bound to: the
// caller's, so that a place needs no memory of its own.
type Parts [5]string

// TokenPlace binds the body of a token to its row: to its id, its type, the
// containers it is in, and the time that ends it.
func TokenPlace(row *storage.Token, parts *Parts) seal.Place { return tokenPlace(row, "body", parts) }

// CVCPlace binds a cvc to its row, and to its own end.
func CVCPlace(row *storage.Token, parts *Parts) seal.Place {
	p := tokenPlace(row, "cvc", parts)
	parts[4] = bindTime(row.CVCExpiresAt)
	p.Bound = parts[:]
	return p
}

func tokenPlace(row *storage.Token, field string, parts *Parts) seal.Place {
	parts[0], parts[1] = row.Type, strings.Join(row.Containers, ",")
	parts[2], parts[3] = string(row.Ord[:]), bindTime(row.ExpiresAt)
	return seal.Place{Entity: "token", ID: row.ID, Field: field, Bound: parts[:4]}
}

// Columns returns a digest of the columns of a token that its place does not bind:
// the keyed hashes that it is found by, and who wrote it when. The digest is sealed
// in the body, so a body with other columns beside it is known to be altered.
func Columns(row *storage.Token) (digest [16]byte) {
	var buf [len(row.Fingerprint) + 5*len(row.Set) + 2*8]byte
	b := append(buf[:0], row.Fingerprint[:]...)
	b = append(append(append(b, row.Expression[:]...), row.Dedup[:]...), row.Set[:]...)
	b = append(append(b, row.CreatedBy[:]...), row.ModifiedBy[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(row.CreatedAt.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(row.ModifiedAt.UnixMicro()))
	sum := sha256.Sum256(b)
	return [16]byte(sum[:])
}

// RecordPlace binds a record's document to everything that stands beside it in
// clear. Its keys are among that: a document opens only under the key that it
// was sealed with, so a hash that is put beside the rights of another key
// does not gain them.
func RecordPlace(rec *storage.Record) seal.Place {
	return seal.Place{
		Entity: rec.Kind, ID: uuid.UUID(rec.ID).String(), Field: "body",
		Bound: []string{rec.Name, string(rec.Key[:]), string(rec.AltKey[:]), bindTime(rec.ExpiresAt), bindTime(rec.CreatedAt)},
	}
}

// ClaimPlace is where the answer of an idempotency claim belongs.
func ClaimPlace(key storage.Key) seal.Place {
	return seal.Place{Entity: "claim", ID: string(key[:]), Field: "answer"}
}

// JobPlace is where a job's payload belongs.
func JobPlace(id storage.ID) seal.Place {
	return seal.Place{Entity: "job", ID: uuid.UUID(id).String(), Field: "payload"}
}

// rowPlace is where the sealed part of a claim or a job belongs.
func rowPlace(row *storage.Sealed) seal.Place {
	if row.Kind == storage.SealedClaims {
		return ClaimPlace(row.Key)
	}
	return JobPlace(storage.ID(row.Key[:16]))
}

// bindTime writes a time for use as associated data, in the precision that the
// database keeps.
func bindTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}
