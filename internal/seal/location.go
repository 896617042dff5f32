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

// Parts is the memory in which TokenLocation and CVCLocation store the bound
// columns. The caller provides it, so that a location needs no allocation.
type Parts [5]string

// TokenLocation binds the body of a token to its row: id, type, containers and
// expiry.
func TokenLocation(row *storage.Token, parts *Parts) Location {
	parts[0], parts[1] = row.Type, strings.Join(row.Containers, ",")
	parts[2], parts[3] = string(row.Ord[:]), bindTime(row.ExpiresAt)
	return Location{Entity: "token", ID: row.ID, Field: "body", Bound: parts[:4]}
}

// CVCLocation binds a cvc to its row and to its own expiry.
func CVCLocation(row *storage.Token, parts *Parts) Location {
	p := TokenLocation(row, parts)
	parts[4] = bindTime(row.CVCExpiresAt)
	p.Field, p.Bound = "cvc", parts[:]
	return p
}

// TokenColumns returns a digest of the columns of a token that its location does not
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

// RecordLocation binds a record's document to all plaintext columns, including
// its keys. A document can be decrypted only with the key columns that it was
// sealed with. So a hash that is put next to the rights of another key does
// not gain them.
func RecordLocation(rec *storage.Record) Location {
	return Location{
		Entity: rec.Kind, ID: uuid.UUID(rec.ID).String(), Field: "body",
		Bound: []string{rec.Name, string(rec.Key[:]), string(rec.AltKey[:]), bindTime(rec.ExpiresAt), bindTime(rec.CreatedAt)},
	}
}

// ClaimLocation returns the location of the response in an idempotency claim.
func ClaimLocation(key storage.Key) Location {
	return Location{Entity: "claim", ID: string(key[:]), Field: "answer"}
}

// JobLocation returns the location of a job's payload.
func JobLocation(id storage.ID) Location {
	return Location{Entity: "job", ID: uuid.UUID(id).String(), Field: "payload"}
}

// rowLocation returns the location of the sealed part of a claim or a job.
func rowLocation(row *storage.Sealed) Location {
	if row.Kind == storage.SealedClaims {
		return ClaimLocation(row.Key)
	}
	return JobLocation(storage.ID(row.Key[:16]))
}

// bindTime encodes a time as associated data, in the precision of the
// database.
func bindTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}
