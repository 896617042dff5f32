package evidence

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
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
		if diff := cmp.Diff(text.appendFields(nil), e.AppendFields(nil)); diff != "" {
			t.Error(diff)
		}
		if text.commit(id, Mac{1}) != e.Commit(id, Mac{1}) {
			t.Error("the commitments differ")
		}
		if text.Operation == "read" {
			text.EntityType = ""
		}
		if diff := cmp.Diff(text.appendFields(nil), e.AppendMacFields(nil)); diff != "" {
			t.Error(diff)
		}
		room := make([]byte, 0, 512)
		if n := testing.AllocsPerRun(10, func() { room = e.AppendMacFields(room[:0]) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
