package evidence

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
)

// Summary says in a sentence or two what was compared, and whether the log is as it
// was:
//
//	9,118 of 9,120 entries of 3 tenants verified, from 2 May to 17 Nov 2026, against
//	212 notes of log.example+1a2b3c4d. 2 are not as they were:
//
// It ends with a colon if findings that mean tampering follow.
func (r *Report) Summary() string {
	if r.Entries == 0 && r.OK() {
		return "Nothing to verify: no entry is in a tree."
	}
	var wrong, inTree, rows, trees int64
	for _, f := range r.Findings {
		switch {
		case !f.Verdict.Tampering():
		case f.Row != "":
			rows++
		case !f.isEntry():
			trees++
		default:
			if wrong++; f.Index >= 0 {
				inTree++
			}
		}
	}
	text := count(r.Entries, "entry", "entries")
	if inTree > 0 {
		text = number(max(0, r.Entries-inTree)) + " of " + text
	}
	did := " verified"
	if trees > 0 {
		did = " compared"
	}
	text += " of " + count(r.Tenants, "tenant", "tenants") + did + r.period() + ", against " + count(r.Notes, "note", "notes")
	if r.Key != "" {
		text += " of " + r.Key
	}
	if r.Anchors > 0 {
		text += " and " + count(r.Anchors, "anchor", "anchors")
	}
	switch text += "."; {
	case r.OK():
		return text + r.explained()
	case r.More > 0:
		return text + " More than " + number(int64(MaxFindings)) + " are not as they were, for example:"
	case wrong == 1:
		return text + " 1 is not as it was:"
	case wrong > 1:
		return text + " " + number(wrong) + " are not as they were:"
	case rows > 0 && trees == 0:
		return text + " The database contradicts the log:"
	default:
		return text + " The log is not as it was:"
	}
}

// explained counts the entries that differ for a reason that is no tampering.
func (r *Report) explained() (text string) {
	for _, v := range []struct {
		verdict   Verdict
		one, more string
	}{
		{Expired, " has expired.", " have expired."}, {Erased, " was erased.", " were erased."},
		{LostRead, " of a read was lost in a crash.", " of reads were lost in a crash."},
		{Unsequenced, " is not in a tree yet.", " are not in a tree yet."},
	} {
		if n := r.counts[v.verdict]; n == 1 {
			text += " 1 entry" + v.one
		} else if n > 1 {
			text += " " + number(n) + " entries" + v.more
		}
	}
	return text
}

const day = "2 Jan 2006"

// period returns the days of the first and the last entry.
func (r *Report) period() string {
	from, to := r.From.Format(day), r.To.Format(day)
	switch {
	case r.From.IsZero():
		return ""
	case from == to:
		return ", of " + to
	case r.From.Year() == r.To.Year():
		from = r.From.Format("2 Jan")
	}
	return ", from " + from + " to " + to
}

func (f *Finding) isEntry() bool {
	return f.Row == "" && (f.EntryID != uuid.UUID{} || f.Index >= 0 && f.Tenant != uuid.UUID{})
}

// String describes the finding in a sentence, with what is known of the entry.
func (f Finding) String() string {
	where := "the log of tenant " + f.Tenant.String()
	if f.Tenant == (uuid.UUID{}) {
		where = "the vault's tree"
	}
	text := f.problem(where)
	if f.Entry != nil {
		if f.Verdict == Altered && f.Row == "" {
			text += ", and now says"
		}
		text += ": " + f.Entry.describe()
	} else if f.EntryID != (uuid.UUID{}) {
		text += ": " + moment(time.UnixMilli(Millis(f.EntryID)))
	}
	var parts []string
	if f.EntryID != (uuid.UUID{}) {
		parts = append(parts, "entry "+f.EntryID.String())
	}
	if f.Index >= 0 {
		parts = append(parts, "leaf "+strconv.FormatInt(f.Index, 10))
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text + "."
}

// sentences say what is wrong with an entry, and with other rows, for verdicts that
// can be about either.
var sentences = map[Verdict][2]string{
	Altered:     {"was altered after the vault wrote it", "were altered"},
	Missing:     {"is missing", "are missing"},
	Forged:      {"was not written by the vault", "were not written by the vault"},
	Reordered:   {"is not in its place", "are not in their places"},
	Unsequenced: {"is not in the tree yet", ""},
	Erased:      {"was erased", ""},
	Expired:     {"has expired", "have expired"},
	LostRead:    {"was lost in a crash", ""},
}

// problem describes what is wrong, without details.
func (f *Finding) problem(where string) string {
	switch {
	case f.Row != "" && f.Verdict == Missing:
		return "The " + f.Row + " is missing, and " + where + " has no deletion of it, but"
	case f.Row != "":
		return "The " + f.Row + " is not as " + where + " says"
	case f.Verdict == Truncated:
		return strings.ToUpper(where[:1]) + where[1:] + " ends before a signed note"
	case f.Verdict == Forked:
		return strings.ToUpper(where[:1]) + where[1:] + " contradicts a signed note"
	case f.Verdict == BadSignature:
		return "A note about " + where + " is not signed with the key"
	case f.isEntry():
		return "An entry of " + where + " " + sentences[f.Verdict][0]
	default:
		return "Rows of " + where + " " + sentences[f.Verdict][1]
	}
}

// describe returns what an entry records: when, what, and who.
func (e *Entry) describe() string {
	actor := strings.TrimSpace(e.ActorType + " " + e.ActorName)
	if e.ActorName == "" && e.ActorID != (uuid.UUID{}) {
		actor += " " + e.ActorID.String()
	}
	return moment(e.CreatedAt) + ", " + cmp.Or(e.Operation, "entry") + " of " + strings.TrimSpace(e.EntityType+" "+e.EntityID) + " by " + cmp.Or(actor, "the tenant")
}

func moment(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04:05 UTC") }

func count(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + more
}

// number formats a number with commas.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// KeyName returns the name and the hash of a key, with which its text begins.
func KeyName(key note.Verifier) string { return fmt.Sprintf("%s+%08x", key.Name(), key.KeyHash()) }
