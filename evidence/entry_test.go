package evidence

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// An entry has the same hash whether its fields are appended directly or as
// texts.
func TestAppendFields(t *testing.T) {
	id := uuid.MustParse("0198c5a0-1234-7abc-8def-0123456789ab")
	at := time.Date(2026, 3, 4, 5, 6, 7, 89_000, time.FixedZone("", 3600))
	for _, e := range []Entry{
		{},
		{ID: id, CreatedAt: at, EntityType: "token", EntityID: "x", Operation: "create", Message: "Token created"},
		{ID: id, CreatedAt: at, ActorID: id, ActorType: "user", ActorName: "jané", EntityType: "token", Operation: "read", Origin: "::1"},
	} {
		text := e.text()
		must.Same(t, "the fields", text.appendFields(nil), e.appendFields(nil, e.EntityType))
		must.Same(t, "the commitments differ", e.Commit(id, Mac{1}), text.commit(id, Mac{1}))
		if text.Operation == "read" {
			text.EntityType = ""
		}
		must.Same(t, "e.AppendMacFields(nil)", text.appendFields(nil), e.AppendMacFields(nil))
		room := make([]byte, 0, 512)
		if n := testing.AllocsPerRun(10, func() { room = e.AppendMacFields(room[:0]) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// Times have the same text as package time gives them.
func TestAppendTime(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		{},
		time.Date(0, 1, 1, 0, 0, 0, 999, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 2, 3, 4, 5, 6, 7_000, time.UTC),
		time.UnixMicro(-1).UTC(),
		time.UnixMicro(math.MaxInt64).UTC(),
		time.UnixMicro(math.MinInt64).UTC(),
	} {
		must.Same(t, at.String(), "x"+at.Format(timeLayout), string(appendTime([]byte("x"), at)))
	}
}
