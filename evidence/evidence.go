// Package evidence checks an audit log without trusting the database that holds
// it. It needs a bundle, which a vault exports, and the vault's public key.
//
//	report, err := evidence.Verify(file, vkey, nil)
//	if err != nil {
//		return err // cannot tell
//	}
//	if !report.OK() {
//		fmt.Println(report.Findings) // tampered with
//	}
//
// # Trees
//
// Each tenant has a Merkle tree (RFC 6962) over the entries of its log, in the
// order in which they were committed. The vault has a separate tree over events. One kind of event, a head, states the size and root of a tenant's
// tree. The vault signs a note (C2SP tlog-checkpoint) over its own tree only.
//
// A leaf of a tenant's tree commits to an entry:
//
//	C    = SHA-256("vault/log/1" || tenant || mac || fields)
//	leaf = SHA-256(0x00 || kind || id || C)
//
// The tenant, the mac and the id are 16 bytes. The kind is one byte: 1 for
// "entry", 2 for "imported", 3 for "old". The fields are texts, each after its
// length in bytes as a big-endian number of 4 bytes: id, created_at, actor_id,
// actor_type, actor_name, entity_type, entity_id, operation, message, origin.
// A field that an entry lacks is empty. The mac is a keyed hash that only the
// vault can compute. For a reader it is 16 random bytes.
//
// A leaf of the vault's tree is SHA-256(0x00 || body), where body is the JSON of
// an [Event].
//
// # Bundle
//
// A bundle is newline-delimited JSON. It holds the log of one tenant. Lines have
// no spaces between tokens, keys in the order below, and no empty optional keys.
// Hashes and macs are in standard base64. There are four sorts of lines, in this
// order:
//
//	{"bundle":"vault-evidence/1","tenant":T,"note":N,"head":P,"events":K}
//	{"event":P}
//	{"n":I,"kind":"entry","id":ID,"c":C,"mac":M,"entry":{...}}
//	{"size":S,"hashes":[H,...]}
//
// The first line is the header: the tenant, the signed note, the tenant's newest
// head, and the number of event lines. P is an event with its proof in the
// vault's tree: {"body":B,"index":I,"proof":[H,...]}, where B is the body as a
// JSON string.
//
// Event lines, in the order of their indexes, hold the events that concern the
// tenant or the whole vault: restored, lost, the newest pruned, and others. The
// origin of the note is the name of the key, followed by /2 after one restore,
// by /3 after two, and so on.
//
// Then follows one line for each leaf of the tenant's tree, in tree order. The
// entry's keys are the names of its fields; empty fields are left out. An entry
// whose row does not exist has neither mac nor entry. It may be missing only if the
// time in its id, the first 6 bytes in Unix milliseconds, is below the "cutoff" of
// the pruned event. An erased entry has no mac, and a
// last key "erased" with the event P, whose "after" is the C of what is left,
// computed with a mac of zeros. When the oldest leaves have been pruned, the
// first of these lines is {"n":0,"pruned":S,"roots":[H,...]} instead: the roots
// of the largest complete subtrees that cover the leaves up to S.
//
// The last lines tell how the vault's tree grew: each gives the roots of the
// largest complete subtrees between the size of the line before it and its own
// size. The first begins at 0, and the last ends at the size in the note. An
// earlier note must state the root that the tree had at its size.
package evidence

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/merkle"
)

// Hash is a SHA-256: of a leaf, of a subtree, or a commitment.
type Hash = merkle.Hash

// ErrCannotTell means that the input is genuine so far, and that it does not
// suffice for a verdict.
var ErrCannotTell = errors.New("evidence: cannot tell")

// Verdict is the result for an entry, or for a whole log.
type Verdict string

// Verdicts that mean tampering.
const (
	// Altered means that an entry, or another part, is not what the vault wrote.
	Altered Verdict = "altered"
	// Missing means that an entry is in the tree, but not in the log.
	Missing Verdict = "missing"
	// Forged means that an entry is in the log, but not in the tree.
	Forged Verdict = "forged"
	// Reordered means that an entry is not at its place.
	Reordered Verdict = "reordered"
	// Truncated means that the end is missing.
	Truncated Verdict = "truncated"
	// Forked means that the log does not continue the log of an earlier note.
	Forked Verdict = "forked"
	// BadSignature means that the key did not sign the note.
	BadSignature Verdict = "bad signature"
)

// Verdicts that do not mean tampering. A signed event backs each of them, except
// Unsequenced.
const (
	// Unsequenced means that an entry is too new to be in the tree.
	Unsequenced Verdict = "unsequenced"
	// Erased means that the name of a person was removed from an entry.
	Erased Verdict = "erased"
	// Expired means that an entry was deleted because of its age.
	Expired Verdict = "expired"
	// LostRead means that the database lost the entry of a read in a crash.
	LostRead Verdict = "lost read"
)

// Tampering reports whether the verdict means tampering.
func (v Verdict) Tampering() bool {
	return !slices.Contains([]Verdict{Unsequenced, Erased, Expired, LostRead}, v)
}

// Finding is a verdict other than "as it should be".
type Finding struct {
	Tenant  uuid.UUID // zero for the vault's own tree
	Index   int64     // of the leaf; -1 when the finding is not about one
	EntryID uuid.UUID // zero when unknown
	Verdict Verdict
	// Row names the row that is older than the entry says, such as "key ring" or
	// "application" and its id. It is empty when the finding is about the log.
	Row string
}

// MaxFindings is how many findings a report lists of each sort, tampering or
// not.
const MaxFindings = 1000

// Report is the result of a verification.
type Report struct {
	Origin   string // of the newest note
	Size     int64  // leaves of the vault's tree that the note covers
	Entries  int64  // leaves of tenants' trees that were checked
	Restores []Restore
	Findings []Finding
	// More counts the findings that are not listed because there are too many.
	More int64

	tampered bool
	listed   [2]int // of each sort
}

// Restore is an older copy of the database that was put back and accepted.
// Entries that the copy lacked are gone.
type Restore struct {
	Time   time.Time
	Reason string
	Index  int64 // of the event in the vault's tree
}

// OK reports whether nothing was tampered with.
func (r *Report) OK() bool { return !r.tampered }

// Add adds a finding.
func (r *Report) Add(f Finding) {
	sort := 0
	if f.Verdict.Tampering() {
		r.tampered, sort = true, 1
	}
	if r.listed[sort] == MaxFindings {
		r.More++
		return
	}
	r.listed[sort]++
	r.Findings = append(r.Findings, f)
}
