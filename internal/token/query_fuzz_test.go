package token

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/storage"
)

// format returns a query with the same meaning as a condition.
func format(n storage.Cond) string {
	switch n := n.(type) {
	case storage.And:
		return formatAll(n, " AND ")
	case storage.Or:
		if len(n) == 0 {
			return "fingerprint:none"
		}
		return formatAll(n, " OR ")
	case storage.Not:
		return "NOT " + format(n.Cond)
	case storage.IDIn:
		return "id:" + quote(n[0])
	case storage.TypeIn:
		return "type:" + quote(n[0])
	case storage.FingerprintIs:
		return "fingerprint:" + base58.Encode(n[:])
	case word:
		return map[string]string{
			"data": "data:" + quote(n.Value), "metadata": "metadata." + quote(n.Key) + ":" + quote(n.Value), "container": "container:" + n.Value + n.Key,
		}[n.Field]
	case storage.ByIs:
		id := n.ID
		return fmt.Sprintf("%s:%x-%x-%x-%x-%x", map[storage.Field]string{storage.CreatedBy: "created_by", storage.ModifiedBy: "modified_by"}[n.Field],
			id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	case storage.TimeIn:
		return map[storage.Field]string{storage.CreatedAt: "created_at", storage.ModifiedAt: "modified_at"}[n.Field] +
			":[" + formatTime(n.From) + " TO " + formatTime(n.To) + "}"
	default:
		return "?"
	}
}

func formatAll(nodes []storage.Cond, word string) string {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = format(n)
	}
	return "(" + strings.Join(texts, word) + ")"
}

func quote(s string) string { return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(s) + `"` }

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "*"
	}
	return t.Format("2006-01-02T15:04:05.000000Z")
}

func FuzzParse(f *testing.F) {
	for _, q := range []string{
		"type:card", "id:a OR id:b c:d", `metadata."a b":"c\"d\\" -type:bank`, "container:/pci/* !(id:a)",
		"created_at:[2026-01-01 TO *}", "modified_at:{* TO 2026-01-02T10:30:15.5+01:00]", "created_at:9999-12-31",
		"created_by:" + someoneText, "((((id:a))))", "NOT NOT id:a", `id:"`, `data:\`, "data:\xff", "(", "[", "",
		"created_at:9999-12-31T23:59:59.999999Z",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		n, err := ParseQuery(q, words{})
		if err != nil {
			var e *QueryError
			if !errors.As(err, &e) || n != nil {
				t.Fatalf("Parse = %v, %v, want an *Error alone", n, err)
			}
			if e.Offset < 0 || e.Offset > min(MaxQuery, utf8.RuneCountInString(q)) {
				t.Fatalf("the error is at %d of %d characters", e.Offset, utf8.RuneCountInString(q))
			}
			return
		}
		if utf8.RuneCountInString(q) > MaxQuery {
			t.Fatalf("a query of %d characters was accepted", utf8.RuneCountInString(q))
		}
		text := format(n)
		if strings.Contains(text, formatTime(latestTime)+" TO "+formatTime(latestTime)) {
			return // an empty range at the latest time cannot be written as a query
		}
		again, err := parseQuery(text, words{})
		if err != nil {
			t.Fatalf("the text of a query cannot be read: %v\n%s", err, text)
		}
		if diff := cmp.Diff(n, again); diff != "" {
			t.Fatalf("the text of a query means another one (-query +text):\n%s", diff)
		}
	})
}
