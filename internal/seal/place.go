package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

// Parts is the memory in which TokenPlace and CVCPlace store the bound
// columns. The caller provides it, so that a place needs no allocation.
type Parts [5]string

// TokenPlace binds the body of a token to its row: id, type, containers and
// expiry.
func TokenPlace(row *storage.Token, parts *Parts) Place { return tokenPlace(row, "body", parts) }

// CVCPlace binds a cvc to its row and to its own expiry.
func CVCPlace(row *storage.Token, parts *Parts) Place {
	p := tokenPlace(row, "cvc", parts)
	parts[4] = bindTime(row.CVCExpiresAt)
	p.Bound = parts[:]
	return p
}

func tokenPlace(row *storage.Token, field string, parts *Parts) Place {
	parts[0], parts[1] = row.Type, strings.Join(row.Containers, ",")
	parts[2], parts[3] = string(row.Ord[:]), bindTime(row.ExpiresAt)
	return Place{Entity: "token", ID: row.ID, Field: field, Bound: parts[:4]}
}

// TokenColumns returns a digest of the columns of a token that its place does not
// bind: the keyed hashes, and who wrote it and when. The digest is sealed in
// the body, so altered columns are detected.
func TokenColumns(row *storage.Token) (digest [16]byte) {
	var buf [len(row.Fingerprint) + 5*len(row.Set) + 2*8]byte
	b := append(buf[:0], row.Fingerprint[:]...)
	b = append(append(append(b, row.Expression[:]...), row.Dedup[:]...), row.Set[:]...)
	b = append(append(b, row.CreatedBy[:]...), row.ModifiedBy[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(row.CreatedAt.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(row.ModifiedAt.UnixMicro()))
	sum := sha256.Sum256(b)
	return [16]byte(sum[:])
}

// RecordPlace binds a record's document to all plaintext columns, including
// its keys. A document can be decrypted only with the key columns that it was
// sealed with. So a hash that is put next to the rights of another key does
// not gain them.
func RecordPlace(rec *storage.Record) Place {
	return Place{
		Entity: rec.Kind, ID: uuid.UUID(rec.ID).String(), Field: "body",
		Bound: []string{rec.Name, string(rec.Key[:]), string(rec.AltKey[:]), bindTime(rec.ExpiresAt), bindTime(rec.CreatedAt)},
	}
}

// ClaimPlace returns the place of the response in an idempotency claim.
func ClaimPlace(key storage.Key) Place {
	return Place{Entity: "claim", ID: string(key[:]), Field: "answer"}
}

// JobPlace returns the place of a job's payload.
func JobPlace(id storage.ID) Place {
	return Place{Entity: "job", ID: uuid.UUID(id).String(), Field: "payload"}
}

// rowPlace returns the place of the sealed part of a claim or a job.
func rowPlace(row *storage.Sealed) Place {
	if row.Kind == storage.SealedClaims {
		return ClaimPlace(row.Key)
	}
	return JobPlace(storage.ID(row.Key[:16]))
}

// bindTime encodes a time as associated data, in the precision of the
// database.
func bindTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}
