// Package evidence verifies an audit log without trusting the database that
// stores it. It needs a bundle, which a vault exports, and the vault's public
// key.
//
//	report, err := evidence.Verify(file, vkey, nil)
//	if err != nil {
//		return err // cannot tell
//	}
//	if !report.OK() {
//		fmt.Println(report.Findings) // tampered with
//	}
//
// # What an auditor needs
//
// [Verify] checks a bundle, [VerifyProof] and [OpenProof] the proof of an entry, and
// [CheckConsistency] that a newer note, read with [OpenCheckpoint], extends an older
// one. A [Report] has the result. The other names are the parts of bundles and proofs,
// for programs that write or read them in their own way, as the vault does.
//
// # Trees
//
// Each tenant has a Merkle tree (RFC 6962) over the entries of its log, in
// commit order. The vault has a separate tree over events. A head is an event
// with the size and root of a tenant's tree. The vault signs a note (C2SP
// tlog-checkpoint) only over its own tree.
//
// A leaf of a tenant's tree commits to an entry:
//
//	C    = SHA-256("vault/log/1" || tenant || mac || fields)
//	leaf = SHA-256(0x00 || kind || id || C)
//
// The tenant, the mac and the id are 16 bytes. The kind is one byte: 1 for
// "entry", 2 for "imported", 3 for "vault". The fields are texts: id, created_at,
// actor_id, actor_type, actor_name, entity_type, entity_id, operation, message,
// origin. Each text follows its length in bytes, a big-endian number of 4 bytes.
// A missing field is empty. The mac is a keyed hash that only the vault can
// compute. For a reader it is 16 random bytes.
//
// A leaf of the vault's tree is SHA-256(0x00 || body), where body is the JSON
// of an [Event].
//
// # Bundle
//
// A bundle is newline-delimited JSON. It holds the log of one tenant. Lines
// have no spaces between tokens, keys in the order below, and no empty
// optional keys. Hashes and macs are in standard base64. There are five
// kinds of lines:
//
//	{"bundle":"vault-evidence/2","tenant":T,"note":N,"events":K}
//	{"event":P}
//	{"n":I,"kind":"entry","id":ID,"c":C,"mac":M,"entry":{...}}
//	{"head":I,"body":B}
//	{"size":S,"hashes":[H,...]}
//
// The first line is the header: the tenant, the signed note, and the number of
// event lines, which follow. P is an event with its proof in the vault's tree:
// {"body":B,"index":I,"proof":[H,...]}, where B is the body as a JSON string.
// Event lines, ordered by index, hold the events that concern the tenant or
// the whole vault: begun, imported, restored, lost, the newest pruned, and
// others. The origin of the note is the name of the key, followed by /2 after
// one restore, by /3 after two, and so on.
//
// The other lines build two trees. Leaf lines are the leaves of the tenant's
// tree, in tree order. Head lines and size lines are the leaves of the vault's
// tree, in tree order: a head line is one leaf, with its index and body, and a
// size line has the roots of the largest complete subtrees up to the size S.
// The vault's tree must end with the size and root of the note.
//
// Every head of the tenant has a line. Its "prev" is one more than the index of
// the head before it. A head line follows the leaves that it covers, so the
// tenant's tree must have the size and the root of the head there. The last
// head covers all leaves. An earlier note must have the root that its tree had
// at its size.
//
// The keys of an entry are the names of its fields; empty fields are left out.
//
//   - An entry whose row does not exist has neither mac nor entry. It may be missing
//     only if the time in its id is below the "cutoff" of the pruned event. That time
//     is the first 6 bytes of the id, in Unix milliseconds.
//   - An erased entry has no mac. Its last key is "erased" with an event P. The
//     "after" of that event is the C of the remaining fields, computed with a mac of
//     zeros.
//   - If the oldest leaves were pruned, the first leaf line is
//     {"n":0,"pruned":S,"roots":[H,...]} instead. Its roots are the largest complete
//     subtrees that cover the leaves up to S. Roots of heads below S are not compared.
//   - An imported entry is older than the tree. It is allowed only if the begun event
//     has "import". If there is an imported event, its "count" is the number of such
//     leaves.
package evidence

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
)

// Hash is a SHA-256: a commitment, or the hash of a leaf or subtree.
type Hash = merkle.Hash

// ErrCannotTell means that the input is genuine but not sufficient for a
// verdict.
var ErrCannotTell = errors.New("evidence: cannot tell")

// Verdict is the result for an entry, or for a whole log.
type Verdict string

// Verdicts that mean tampering.
const (
	// Altered means that an entry, or another part, differs from what the
	// vault wrote.
	Altered Verdict = "altered"
	// Missing means that an entry is in the tree, but not in the log.
	Missing Verdict = "missing"
	// Forged means that an entry is in the log, but not in the tree.
	Forged Verdict = "forged"
	// Reordered means that an entry is in the wrong position.
	Reordered Verdict = "reordered"
	// Truncated means that the end is missing.
	Truncated Verdict = "truncated"
	// Forked means that the log does not extend the log of an earlier note.
	Forked Verdict = "forked"
	// BadSignature means that the key did not sign the note.
	BadSignature Verdict = "bad signature"
)

// Verdicts that do not mean tampering. Each is backed by a signed event,
// except Unsequenced.
const (
	// Unsequenced means that an entry is too new to be in the tree.
	Unsequenced Verdict = "unsequenced"
	// Erased means that a person's name was removed from an entry.
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

// Finding is a deviation in a log.
type Finding struct {
	Tenant  uuid.UUID // zero for the vault's own tree
	Index   int64     // index of the leaf, or -1
	EntryID uuid.UUID // zero if unknown
	Verdict Verdict
	// Row names the row that is older than the entry says, such as "key ring" or
	// "application" and its id. It is empty when the finding is about the log.
	Row string
	// Entry is the entry as the log has it now, which is not what the vault wrote
	// if it was altered. It is nil if the entry is missing or unknown.
	Entry *Entry
}

// MaxFindings is the maximum number of findings in a report, for tampering
// and for other findings each.
const MaxFindings = 1000

// Report is the result of a verification.
type Report struct {
	Origin   string    // origin of the newest note
	Size     int64     // number of leaves of the vault's tree that the note covers
	Entries  int64     // number of leaves of tenants' trees that were checked
	Tenants  int64     // number of tenants whose trees were checked
	Notes    int64     // number of signed notes that the vault's tree was compared with
	Anchors  int64     // number of anchors whose notes were among them
	Key      string    // name and hash of the key that verified the notes
	From, To time.Time // when the first and the last of these entries were written
	Restores []Restore
	Findings []Finding
	// More is the number of findings that are not listed because there are
	// too many.
	More int64

	tampered bool
	listed   [2]int            // number of listed findings: other, tampering
	counts   map[Verdict]int64 // of all findings
}

// Restore is the accepted restore of an older copy of the database. Entries
// that the copy lacked are lost.
type Restore struct {
	Time   time.Time
	Reason string
	Index  int64  // index of the event in the vault's tree
	Origin string // origin of the notes after it
}

// NextRestore returns the first restore that is not counted in an origin with this
// number of restores. The name is the name of the key. A number is skipped if the
// same copy was restored twice.
func (r *Report) NextRestore(name string, counted int) (Restore, bool) {
	for _, one := range r.Restores {
		if n, err := Restores(name, one.Origin); err == nil && n > counted {
			return one, true
		}
	}
	return Restore{}, false
}

// cover extends the period of the report by another one, which is zero without
// entries.
func (r *Report) cover(from, to time.Time) {
	if !from.IsZero() && (r.From.IsZero() || from.Before(r.From)) {
		r.From = from
	}
	if to.After(r.To) {
		r.To = to
	}
}

// Merge adds the findings and figures of another report.
func (r *Report) Merge(other *Report) {
	for _, f := range other.Findings {
		r.Add(f)
		r.counts[f.Verdict]--
	}
	for verdict, n := range other.counts {
		r.counted(verdict, n)
	}
	r.More += other.More
	r.Entries += other.Entries
	r.Tenants += other.Tenants
	r.cover(other.From, other.To)
}

// OK reports whether verification found no tampering.
func (r *Report) OK() bool { return !r.tampered }

// Add adds a finding.
func (r *Report) Add(f Finding) {
	sort := 0
	if f.Verdict.Tampering() {
		r.tampered, sort = true, 1
	}
	r.counted(f.Verdict, 1)
	if r.listed[sort] == MaxFindings {
		r.More++
		return
	}
	r.listed[sort]++
	r.Findings = append(r.Findings, f)
}

func (r *Report) counted(v Verdict, n int64) {
	if r.counts == nil {
		r.counts = map[Verdict]int64{}
	}
	r.counts[v] += n
}
