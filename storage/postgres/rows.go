package postgres

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// kind is the type of a column.
type kind struct {
	name string
	oid  uint32
}

var (
	bytea   = kind{"bytea", oidBytea}
	text    = kind{"text", oidText}
	bigint  = kind{"bigint", oidInt8}
	boolean = kind{"boolean", oidBool}
)

type column struct {
	name string
	kind kind
}

// columns are the columns of rows that a statement is given.
type columns []column

// names lists the columns, each with a prefix.
func (cs columns) names(prefix string) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(prefix)
		b.WriteString(c.name)
	}
	return b.String()
}

// from is an item of a FROM list that yields rows of these columns under an
// alias, out of parameters after the first n. One row comes as scalars, which
// the server plans and runs faster; several come as arrays, so that one
// statement fits any number.
func (cs columns) from(n int, many bool, alias string) string {
	as := " AS " + alias + "(" + cs.names("") + ")"
	if many {
		return "unnest(" + cs.places(n, "[]") + ")" + as
	}
	return "(VALUES (" + cs.places(n, "") + "))" + as
}

// places lists the parameters after the first n, as these columns or as arrays
// of them.
func (cs columns) places(n int, suffix string) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(n+i+1) + "::" + c.kind.name + suffix)
	}
	return b.String()
}

// arrays turns rows into one array for each column.
func (cs columns) arrays(rows [][]any) []any {
	args := make([]any, len(cs))
	for i, c := range cs {
		size := 0
		for _, row := range rows {
			size += width(row[i])
		}
		a := newArray(c.kind.oid, len(rows), size)
		for _, row := range rows {
			a.add(row[i])
		}
		args[i] = a.value()
	}
	return args
}

// absent tells which columns are NULL in every row, a bit for each. Leaving
// them out of an insert saves the server the work of taking arrays apart.
func (cs columns) absent(rows [][]any) uint32 {
	absent := uint32(1)<<len(cs) - 1
	for _, row := range rows {
		for i, value := range row {
			if value != nil {
				absent &^= 1 << i
			}
		}
	}
	return absent
}

// without returns the columns that are not absent.
func (cs columns) without(absent uint32) columns {
	present := make(columns, 0, len(cs))
	for i, c := range cs {
		if absent&(1<<i) == 0 {
			present = append(present, c)
		}
	}
	return present
}

// arraysWithout turns rows into one array for each column that is not absent.
func (cs columns) arraysWithout(absent uint32, rows [][]any) []any {
	present := make([][]any, len(rows))
	for i, row := range rows {
		kept := row[:0:0]
		for j, value := range row {
			if absent&(1<<j) == 0 {
				kept = append(kept, value)
			}
		}
		present[i] = kept
	}
	return cs.without(absent).arrays(present)
}

// The columns of what a Change writes, in the order of the functions below. A
// tenant comes first where rows of several tenants share a statement.
var (
	tenantColumn = columns{{"tenant_id", bytea}}

	tokenColumns = columns{
		{"ord", bytea}, {"id", text}, {"type", text}, {"set_id", bytea}, {"containers", text},
		{"fingerprint", bytea}, {"expression", bytea}, {"dedup", bytea}, {"hashes", bytea},
		{"key_version", bigint}, {"body", bytea}, {"cvc", bytea}, {"cvc_expires_at", bigint}, {"expires_at", bigint},
		{"created_by", bytea}, {"created_at", bigint}, {"modified_by", bytea}, {"modified_at", bigint}, {"rev", bigint},
	}
	// What an update names its row by, and what it replaces.
	tokenUpdateColumns = append(columns{{"ord", bytea}, {"old_rev", bigint}}, tokenReplaced...)
	tokenReplaced      = columns{
		{"set_id", bytea}, {"containers", text}, {"fingerprint", bytea}, {"expression", bytea}, {"dedup", bytea},
		{"hashes", bytea}, {"key_version", bigint}, {"body", bytea}, {"cvc", bytea},
		{"cvc_expires_at", bigint}, {"expires_at", bigint}, {"modified_by", bytea}, {"modified_at", bigint},
	}
	tokenDeleteColumns = columns{{"ord", bytea}, {"old_rev", bigint}}

	hashColumns  = columns{{"hash", bytea}, {"ord", bytea}}
	countColumns = columns{{"set_id", bytea}, {"type", text}, {"n", bigint}}

	setColumns = columns{{"set_id", bytea}, {"containers", text}}

	logColumns = columns{
		{"id", bytea}, {"created_at", bigint}, {"actor_id", bytea}, {"actor_type", text},
		{"entity_type", text}, {"entity_id", text}, {"operation", text}, {"message", text},
	}

	recordColumns = columns{
		{"kind", text}, {"id", bytea}, {"name", text}, {"name_fold", text}, {"key_hash", bytea}, {"alt_hash", bytea},
		{"expires_at", bigint}, {"key_version", bigint}, {"body", bytea}, {"created_at", bigint}, {"rev", bigint},
	}
	recordDeleteColumns = columns{{"kind", text}, {"id", bytea}, {"rev", bigint}}
	lookupColumns       = columns{{"hash", bytea}, {"kind", text}, {"id", bytea}}

	claimColumns = columns{
		{"key", bytea}, {"owner", bytea}, {"lease_until", bigint}, {"expires_at", bigint},
		{"key_version", bigint}, {"answer", bytea},
	}

	jobColumns = columns{
		{"id", bytea}, {"kind", text}, {"run_at", bigint}, {"attempts", bigint}, {"dead", boolean},
		{"owner", bytea}, {"lease_until", bigint}, {"key_version", bigint}, {"payload", bytea},
	}
	jobUpdateColumns = columns{
		{"id", bytea}, {"owner", bytea}, {"run_at", bigint}, {"attempts", bigint}, {"dead", boolean},
		{"key_version", bigint}, {"payload", bytea}, {"lease_until", bigint},
	}
	jobDeleteColumns = columns{{"id", bytea}, {"owner", bytea}}

	resealColumns = columns{{"key", bytea}, {"key_version", bigint}, {"body", bytea}}
)

func tokenRow(t *storage.Token) []any {
	return []any{
		t.Ord[:], t.ID, t.Type, t.Set[:], sqlstore.JoinContainers(t.Containers),
		t.Fingerprint[:], t.Expression[:], hashOrNull(t.Dedup), joinHashes(t.Hashes),
		int64(t.KeyVersion), orEmpty(t.Body), orNull(t.CVC), sqlstore.Micros(t.CVCExpiresAt), sqlstore.Micros(t.ExpiresAt),
		idOrNull(t.CreatedBy), t.CreatedAt.UnixMicro(), idOrNull(t.ModifiedBy), sqlstore.Micros(t.ModifiedAt), t.Rev,
	}
}

// hashRows are a token's hashes, each once.
func hashRows(t *storage.Token) [][]any {
	rows := make([][]any, 0, len(t.Hashes))
	for i := range t.Hashes {
		if !slices.Contains(t.Hashes[:i], t.Hashes[i]) {
			rows = append(rows, []any{t.Hashes[i][:], t.Ord[:]})
		}
	}
	return rows
}

func tokenUpdateRow(u *storage.TokenUpdate) []any {
	t := &u.Token
	var hashes any
	if !u.KeepHashes {
		hashes = joinHashes(t.Hashes)
	}
	return []any{
		t.Ord[:], u.Rev, t.Set[:], sqlstore.JoinContainers(t.Containers), t.Fingerprint[:], t.Expression[:],
		hashOrNull(t.Dedup), hashes, int64(t.KeyVersion), orEmpty(t.Body), orNull(t.CVC),
		sqlstore.Micros(t.CVCExpiresAt), sqlstore.Micros(t.ExpiresAt), idOrNull(t.ModifiedBy), sqlstore.Micros(t.ModifiedAt),
	}
}

func tokenDeleteRow(d *storage.TokenDelete) []any { return []any{d.Ord[:], d.Rev} }

func setRow(s *storage.ContainerSet) []any {
	return []any{s.Set[:], sqlstore.JoinContainers(s.Containers)}
}

func logRow(l *storage.Log) []any {
	return []any{
		l.ID[:], l.CreatedAt.UnixMicro(), idOrNull(l.ActorID), l.ActorType,
		l.EntityType, l.EntityID, l.Operation, l.Message,
	}
}

func recordRow(r *storage.Record, rev int64) []any {
	return []any{
		r.Kind, r.ID[:], r.Name, sqlstore.FoldName(r.Name), keyOrNull(r.Key), keyOrNull(r.AltKey),
		sqlstore.Micros(r.ExpiresAt), int64(r.KeyVersion), orEmpty(r.Body), r.CreatedAt.UnixMicro(), rev,
	}
}

func recordDeleteRow(d *storage.RecordDelete) []any { return []any{d.Kind, d.ID[:], d.Rev} }

// lookupRows are the keys by which a record is found.
func lookupRows(r *storage.Record) [][]any {
	var rows [][]any
	if !r.Key.IsZero() {
		rows = append(rows, []any{r.Key[:], r.Kind, r.ID[:]})
	}
	if !r.AltKey.IsZero() && r.AltKey != r.Key {
		rows = append(rows, []any{r.AltKey[:], r.Kind, r.ID[:]})
	}
	return rows
}

func claimRow(c *storage.Claim) []any {
	return []any{
		c.Key[:], c.Owner[:], sqlstore.Micros(c.LeaseUntil), sqlstore.Micros(c.ExpiresAt),
		int64(c.KeyVersion), orNull(c.Answer),
	}
}

func jobRow(j *storage.Job) []any {
	return []any{
		j.ID[:], j.Kind, j.RunAt.UnixMicro(), int64(j.Attempts), j.Dead,
		idOrNull(j.Owner), sqlstore.Micros(j.LeaseUntil), int64(j.KeyVersion), orEmpty(j.Payload),
	}
}

func jobUpdateRow(u *storage.JobUpdate) []any {
	j := &u.Job
	return []any{
		j.ID[:], u.Owner[:], j.RunAt.UnixMicro(), int64(j.Attempts), j.Dead, int64(j.KeyVersion), orEmpty(j.Payload),
		sqlstore.Micros(u.Until),
	}
}

func jobDeleteRow(d *storage.JobDelete) []any { return []any{d.ID[:], d.Owner[:]} }

func resealRow(s *storage.Sealed) []any {
	key := s.Key[:]
	if s.Kind == storage.SealedJobs {
		key = s.Key[:len(storage.ID{})]
	}
	return []any{key, int64(s.KeyVersion), orEmpty(s.Body)}
}

// rowsOf applies a row function to every element.
func rowsOf[T any](values []T, row func(*T) []any) [][]any {
	rows := make([][]any, len(values))
	for i := range values {
		rows[i] = row(&values[i])
	}
	return rows
}

// joinHashes concatenates a token's hashes, each once.
func joinHashes(hashes []storage.Hash) []byte {
	joined := make([]byte, 0, len(hashes)*len(storage.Hash{}))
	for i, h := range hashes {
		if !slices.Contains(hashes[:i], h) {
			joined = append(joined, h[:]...)
		}
	}
	return joined
}

func idOrNull(id storage.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func hashOrNull(h storage.Hash) any {
	if h == (storage.Hash{}) {
		return nil
	}
	return h[:]
}

func keyOrNull(k storage.Key) any {
	if k.IsZero() {
		return nil
	}
	return k[:]
}

// orNull keeps the difference between nil and no bytes, which the driver's
// untyped nil does not.
func orNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// micros is a moment by which rows are judged.
func micros(t time.Time) int64 { return t.UnixMicro() }
