package execkey

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault"
)

const (
	// answerWithin is how long a program may leave a request unanswered.
	answerWithin = 10 * time.Second
	// restartEvery is the shortest time between two starts of a program.
	restartEvery = time.Second
	// lastWords is how long the output of a program that was ended is read.
	lastWords = time.Second
	// maxLine limits a line of a program.
	maxLine = 64 << 10
	// execPrefix starts the names of variables that a program gets, without it.
	execPrefix = "TOKENVAULT_EXEC_"
)

var (
	errClosed  = errors.New("vaultkms: the key was closed")
	errEnded   = errors.New("vaultkms: the program ended")
	errPause   = errors.New("vaultkms: the program ended, and was started less than a second ago")
	errSilent  = fmt.Errorf("vaultkms: the program left a request unanswered for %s", answerWithin)
	errGarbage = errors.New("vaultkms: the program wrote a line that is no response to a request")
)

// request is a line to the program, and response a line from it.
type request struct {
	ID   int64  `json:"id"`
	Op   string `json:"op"`
	Data []byte `json:"data"`
	AAD  []byte `json:"aad"`
}

type response struct {
	ID     int64  `json:"id"`
	Data   []byte `json:"data"`
	Error  string `json:"error"`
	Denied bool   `json:"denied"`

	failed error // if the program was given up
}

// program is a program that is started once and kept. A program that misbehaves is
// replaced.
type program struct {
	words  []string
	logger *slog.Logger

	mu      sync.Mutex
	running *process
	started time.Time
	closed  bool
}

// call sends a request, and returns the data of its response.
func (p *program) call(ctx context.Context, op string, data, aad []byte) ([]byte, error) {
	proc, err := p.process()
	if err != nil {
		return nil, err
	}
	answer, err := proc.send(op, data, aad)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-answer:
		switch {
		case r.failed != nil:
			return nil, r.failed
		case r.Denied:
			return nil, fmt.Errorf("%w: the program says: %s", vault.ErrKeyDenied, r.Error)
		case r.Error != "":
			return nil, fmt.Errorf("vaultkms: the program says: %s", r.Error)
		}
		return r.Data, nil
	}
}

// process returns the running program, or starts it.
func (p *program) process() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if p.running != nil && p.running.alive() {
		return p.running, nil
	}
	if time.Since(p.started) < restartEvery {
		return nil, errPause
	}
	p.started = time.Now()
	running, err := start(p.words, p.logger)
	if err == nil {
		p.running = running
	}
	return running, err
}

// close ends the program, and waits for its end.
func (p *program) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.running != nil {
		p.running.giveUp(errClosed)
		<-p.running.ended
	}
	return nil
}

// notNil returns data that is encoded as a string, not as null.
func notNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output []io.Closer
	ended  chan struct{} // closed when the program has ended

	writing sync.Mutex // held while a request is written
	mu      sync.Mutex
	last    int64
	waiting map[int64]waiting // nil when the program was given up
}

type waiting struct {
	answer chan response
	timer  *time.Timer
}

// start starts a program.
func start(words []string, logger *slog.Logger) (*process, error) {
	cmd := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // the operator names the program, which outlives the call
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, variable := range os.Environ() {
		if rest, ok := strings.CutPrefix(variable, execPrefix); ok {
			cmd.Env = append(cmd.Env, rest)
		}
	}
	ownGroup(cmd)
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	stderr, errErr := cmd.StderrPipe()
	if err := errors.Join(inErr, outErr, errErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("vaultkms: start the program: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, output: []io.Closer{stdout, stderr}, ended: make(chan struct{}), waiting: map[int64]waiting{}}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			logger.Warn("the program of the key says", "line", lines.Text())
		}
		_, _ = io.Copy(io.Discard, stderr) // a line was too long
	})
	reading.Go(func() { p.giveUp(p.read(stdout)) })
	go func() {
		defer close(p.ended)
		reading.Wait()
		_ = cmd.Wait() // its outcome does not matter any more
	}()
	return p, nil
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting != nil
}

// send writes a request, and returns the channel of its response. The response may
// come after its caller has left.
func (p *process) send(op string, data, aad []byte) (<-chan response, error) {
	answer := make(chan response, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return nil, errEnded
	}
	p.last++
	line, err := json.Marshal(request{ID: p.last, Op: op, Data: notNil(data), AAD: notNil(aad)})
	if err != nil {
		return nil, err
	}
	p.waiting[p.last] = waiting{answer, time.AfterFunc(answerWithin, func() { p.giveUp(errSilent) })}
	go func() { // the program may not read
		p.writing.Lock()
		defer p.writing.Unlock()
		_, _ = p.stdin.Write(append(line, '\n')) // if it fails, the program has ended
	}()
	return answer, nil
}

// read passes on responses. It returns why it stopped.
func (p *process) read(stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r response
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if d.Decode(&r) != nil || d.More() || !p.answer(r) {
			return errGarbage
		}
	}
	if lines.Err() != nil {
		return errGarbage
	}
	return errEnded
}

// answer passes on a response. It reports whether a request has its id.
func (p *process) answer(r response) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.waiting[r.ID]
	if ok {
		w.timer.Stop()
		w.answer <- r
		delete(p.waiting, r.ID)
	}
	return ok
}

// giveUp ends the program and fails all requests in flight. The first call comes before
// the end of the program is waited for, so its process id is still its own.
func (p *process) giveUp(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return
	}
	for _, w := range p.waiting {
		w.timer.Stop()
		w.answer <- response{failed: why}
	}
	p.waiting = nil
	killGroup(p.cmd)
	_ = p.stdin.Close()
	time.AfterFunc(lastWords, p.mute)
}

// mute closes the output of the program, which another program may still hold.
func (p *process) mute() {
	for _, out := range p.output {
		_ = out.Close() // it may be closed already
	}
}
