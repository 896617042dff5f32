package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func TestProfLog(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(context.Background(), filepath.Join(dir, "ours.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tenant := nid()
	var ids []string
	for range 20000 {
		ids = append(ids, benchToken(time.Now()).ID)
	}
	n := 0
	for _, callers := range []int{1, 8} {
		r := run(callers, 40000/callers, func() {
			n = (n*7919 + 13) % len(ids)
			now := time.Now()
			if err := s.Write(context.Background(), &storage.Change{Tenant: tenant, Now: now, Relaxed: true, Logs: []storage.Log{benchLog(now, ids[n])}}); err != nil {
				panic(err)
			}
		})
		fmt.Printf("log %d callers %.0f/s\n", callers, r)
	}
}
