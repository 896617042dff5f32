package once

import (
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

func TestFlights(t *testing.T) {
	t.Parallel()
	var all Requests
	key := func(n int) flight { return flight{key: storage.Key{byte(n), byte(n >> 8)}} }
	if all.met(key(1)) || !all.enter(key(1)) || all.enter(key(1)) || !all.enter(key(2)) {
		t.Error("two requests entered with one key")
	}
	all.leave(key(1))
	if !all.met(key(1)) || all.met(key(2)) || !all.enter(key(1)) {
		t.Error("the key of a completed request is not known")
	}
	for i := range 2 * maxMet {
		all.enter(key(100 + i))
		all.leave(key(100 + i))
		if !all.met(key(100+i)) || len(all.done) > maxMet {
			t.Fatalf("%d keys of completed requests are known, want at most %d, and the newest", len(all.done), maxMet)
		}
	}
}
