package workers

import (
	"crypto/sha256"
	"net"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
)

// testParent is the parent's side of a worker that runs in this process.
type testParent struct {
	t    *testing.T
	link *link
}

// serveParent starts a worker and reads its greeting.
func serveParent(t *testing.T) testParent {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	go serveLink(newLink(theirs), 128<<20, nil)
	p := testParent{t, newLink(ours)}
	p.expect(kindHello)
	return p
}

func (p testParent) expect(kind byte) frame {
	p.t.Helper()
	f, err := p.link.receive()
	if err != nil || f.kind != kind {
		p.t.Fatalf("got %q %s, %v, want %q", f.kind, f.part(0), err, kind)
	}
	return f
}

func (p testParent) send(kind byte, id uint32, parts ...[]byte) {
	p.t.Helper()
	must.Do(p.t, p.link.send(kind, id, parts...))
}

// TestLateStopDoesNotEndTheNextRun sends the stop of a run that has ended while the next one is in
// progress. A stop ends only the run with its number. The worker
// requests a source once if it was not sent.
func TestLateStopDoesNotEndTheNextRun(t *testing.T) {
	t.Parallel()
	parent := serveParent(t)
	expect, send := parent.expect, parent.send
	source := []byte(`module.exports = ({ bt }) => bt.tokenize({})`)
	hash := sha256.Sum256(source)
	l := node.Limits{Timeout: 10 * time.Second, MaxSource: 1000, MaxOutput: 1000, MaxLog: 1000}
	for run, stop := range []struct {
		number uint32
		end    byte
	}{{1, kindFailed}, {1, kindDone}, {2, kindDone}, {4, kindFailed}} {
		send(kindRun, 0, encodeLimits(l), hash[:], []byte(`{"application":true}`)) // without the source
		if run == 0 {
			question := expect(kindAsk)
			must.Same(t, "the worker asks for", node.AskSource, string(question.part(0)))
			send(kindTell, question.id, nil, source)
		}
		call := expect(kindCall)
		send(kindStop, stop.number)
		if stop.end == kindDone {
			send(kindReply, call.id, []byte(`1`))
		}
		if f := expect(stop.end); stop.end == kindDone && string(f.part(0)) != "1" {
			t.Errorf("run %d returned %s", run+1, f.part(0))
		}
	}
}
