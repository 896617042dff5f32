package link

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestStatementDeadline reads from a server that trickles, and from a server
// that sends a large result.
func TestStatementDeadline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		each    int // bytes of the result per second
		seconds int
		want    time.Duration // latest time at which the line is closed; zero if it stays open
	}{
		"a byte a second":           {each: 1, seconds: 60, want: 11 * time.Second},
		"a large result":            {each: 2 * leastRate, seconds: 60},
		"a short result, in pieces": {each: 1, seconds: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, err := ask(t, test.each, test.seconds)
				if (err != nil) != (test.want > 0) || err != nil && got > test.want {
					t.Errorf("after %v: %v", got, err)
				}
			})
		})
	}
}

// ask sends a request, reads the result, and returns how long both took.
func ask(t *testing.T, each, seconds int) (time.Duration, error) {
	t.Helper()
	client, server := net.Pipe()
	var answer sync.WaitGroup
	defer answer.Wait()
	defer client.Close()
	answer.Go(func() {
		defer server.Close()
		if _, err := server.Read(make([]byte, 1)); err != nil {
			return
		}
		for range seconds {
			time.Sleep(time.Second)
			if _, err := server.Write(make([]byte, each)); err != nil {
				return
			}
		}
	})
	var silence atomic.Int64
	silence.Store(int64(10 * time.Second))
	l, start := &line{Conn: client, silence: &silence}, time.Now()
	must.Get(l.Write([]byte{'Q'}))(t)
	b := make([]byte, leastRate)
	for left := each * seconds; left > 0; {
		n, err := l.Read(b)
		if err != nil {
			return time.Since(start), err
		}
		left -= n
	}
	return time.Since(start), nil
}
