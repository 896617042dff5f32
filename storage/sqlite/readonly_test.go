package sqlite

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// setReadOnly makes the writer's file read-only, or writable again. The file
// system cannot be made read-only for that, because it has open files.
func setReadOnly(t *testing.T, s *Store, on bool) {
	t.Helper()
	err := s.writes.do(t.Context(), call{alone: true, outside: func(w *writer) error {
		return must.Err(w.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA query_only = %t", on)))
	}})
	must.Do(t, err)
}

// If a file becomes read-only, all changes fail with ErrUnavailable, and so does Ping.
// When the file is writable again, exactly the acknowledged tokens exist.
func TestReadOnlyFileIsUnavailable(t *testing.T) {
	t.Parallel()
	s, stop := open(t, newPath(t)), make(chan struct{})
	results := make(chan error)
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for n := 0; ; n++ {
				results <- s.Write(t.Context(), insert(token(fmt.Sprintf("%d-%d", caller, n))))
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	acknowledged := 0
	await := func(want error, count int) {
		for count > 0 {
			err := <-results
			switch {
			case err == nil:
				acknowledged++
			case !errors.Is(err, storage.ErrUnavailable):
				t.Fatalf("got %v, want ErrUnavailable", err)
			}
			if errors.Is(err, want) {
				count--
			}
		}
	}
	await(nil, 50)
	setReadOnly(t, s, true)
	await(storage.ErrUnavailable, 50)
	must.Match(t, "Ping", s.Ping(t.Context()), storage.ErrUnavailable)
	setReadOnly(t, s, false)
	await(nil, 50)
	go func() {
		callers.Wait()
		close(results)
	}()
	close(stop)
	for err := range results {
		if err == nil {
			acknowledged++
		}
	}
	if counted, stored := total(t, s); counted != acknowledged || stored != acknowledged {
		t.Errorf("%d tokens are counted and %d stored, %d were acknowledged", counted, stored, acknowledged)
	}
}
