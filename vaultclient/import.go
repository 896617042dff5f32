package vaultclient

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

const contentLines = "application/x-ndjson"

// Import sends rows to the vault, which imports them while they arrive. See
// [vault.Client.Import].
//
// Rows are read in another goroutine than the loop over the results, because
// results arrive while rows are sent. An import is not retried. After an
// error, repeat it with [vault.ImportOptions].Resumed, from the row after the
// last result.
func (c *Client) Import(ctx context.Context, rows iter.Seq2[vault.TokenParams, error], opts *vault.ImportOptions) iter.Seq2[vault.ImportResult, error] {
	if rows == nil {
		rows = func(func(vault.TokenParams, error) bool) {} // a nil iterator has no rows
	}
	return func(yield func(vault.ImportResult, error) bool) {
		opts := cmp.Or(opts, new(vault.ImportOptions))
		ctx, end := c.tell(ctx, &core.VerbImport)
		ctx, cancel := context.WithCancel(ctx)
		im := &sending{ctx: ctx, row: max(opts.FirstRow, 1), own: map[int]error{}, done: make(chan struct{})}
		next := im.row // row of the next result
		body, to := io.Pipe()
		go im.send(rows, to)
		defer func() {
			cancel()
			_ = body.CloseWithError(errLoopEnded)
			<-im.done
		}()
		err := c.receive(ctx, body, opts, func(r vault.ImportResult) bool {
			next++
			return yield(im.known(r), nil)
		})
		if err == nil {
			_ = body.Close() // the vault has ended the response, so it reads no more rows
			<-im.done
			if next < im.row {
				err = c.lost(ctx, core.VerbImport.Name, io.ErrUnexpectedEOF)
			}
		}
		if errors.Is(err, errLoopEnded) {
			end(nil)
			return
		}
		err = cmp.Or(im.ended(), err)
		end(err)
		if err != nil {
			yield(vault.ImportResult{}, err)
		}
	}
}

// errLoopEnded means that the caller's loop wants no more results.
var errLoopEnded = errors.New("vaultclient: the loop has ended")

// sending is the state of an import while its rows are sent.
type sending struct {
	ctx  context.Context //nolint:containedctx // of one import
	row  int
	done chan struct{}

	mu  sync.Mutex
	own map[int]error // errors of rows that could not be sent, until their results arrive
	err error         // error that ended the rows
}

// send writes rows as lines. A row with an error is sent as null, so that it
// is counted.
func (im *sending) send(rows iter.Seq2[vault.TokenParams, error], to *io.PipeWriter) {
	defer close(im.done)
	out := bufio.NewWriter(to)
	for p, err := range rows {
		if errors.Is(err, vault.ErrImportPause) {
			if out.Flush() != nil {
				break
			}
			continue
		}
		var line []byte
		if err == nil {
			line, err = encode(p)
		}
		if err != nil && !errors.Is(err, vault.ErrInvalid) {
			im.mu.Lock()
			im.err = err
			im.mu.Unlock()
			break
		}
		if err != nil {
			line = []byte("null")
			im.mu.Lock()
			im.own[im.row] = err
			im.mu.Unlock()
		}
		im.row++
		if _, err := out.Write(append(line, '\n')); err != nil {
			break // the vault or the loop has ended
		}
	}
	_ = to.CloseWithError(out.Flush())
}

func (im *sending) ended() error {
	select {
	case <-im.done:
		im.mu.Lock()
		defer im.mu.Unlock()
		return im.err
	default:
		return nil
	}
}

// known returns the result of a row. If the row could not be sent, the result
// has the reason.
func (im *sending) known(r vault.ImportResult) vault.ImportResult {
	im.mu.Lock()
	defer im.mu.Unlock()
	err, own := im.own[r.Row]
	if !own {
		return r
	}
	delete(im.own, r.Row)
	r.Err, r.Errors, r.Detail = err, nil, ""
	if bad, ok := errors.AsType[*vault.InvalidError](err); ok {
		r.Errors = bad.Fields
	} else {
		r.Detail = err.Error()
	}
	return r
}

// importLine is a line of the response.
type importLine struct {
	vault.ImportResult
	Status int        `json:"status"`
	Error  *errorBody `json:"error"`
}

// receive sends the body of an import and passes on its results as they
// arrive.
func (c *Client) receive(ctx context.Context, body io.Reader, opts *vault.ImportOptions, take func(vault.ImportResult) bool) error {
	query := url.Values{}
	setAll(query.Set, map[string]string{"on_duplicate": string(opts.OnDuplicate), "name": opts.Name})
	if opts.FirstRow != 0 {
		query.Set("first_row", strconv.Itoa(opts.FirstRow))
	}
	if opts.Resumed {
		query.Set("resumed", "true")
	}
	r := &request{verb: &core.VerbImport, method: http.MethodPost, path: "/tokens/import", query: query.Encode(), typ: contentLines}
	a, lines, err := c.stream(ctx, r, body)
	if err != nil {
		return err
	}
	defer lines.Close()
	return c.results(ctx, r, a, lines, take)
}

// results reads the lines of a response.
func (c *Client) results(ctx context.Context, r *request, a *answer, body io.Reader, take func(vault.ImportResult) bool) error {
	lines := json.NewDecoder(bufio.NewReader(body))
	for {
		var line importLine
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil, errors.Is(err, io.ErrUnexpectedEOF):
			return c.lost(ctx, r.verb.Name, err)
		case err != nil, line.Error == nil && line.Outcome == "":
			return notAVault(r, a, "it has a line that is not the result of a row")
		case line.Error != nil:
			e := &Error{Status: line.Error.Status, TraceID: a.trace, own: true}
			e.err = known(r.verb.Name, e, line.Error, kinds)
			return e
		}
		if line.Outcome == vault.ImportFailed {
			e := &Error{Status: line.Status, TraceID: a.trace, own: true}
			line.Err = known(r.verb.Name, e, &errorBody{Status: line.Status, Detail: line.Detail, Errors: line.Errors}, kinds)
		}
		if !take(line.ImportResult) {
			return errLoopEnded
		}
	}
}

// FollowLogs iterates over the entries of the audit log as they are written.
// See [vault.Client.FollowLogs].
func (c *Client) FollowLogs(ctx context.Context, cursor string) iter.Seq2[*vault.LogBatch, error] {
	return func(yield func(*vault.LogBatch, error) bool) {
		for first := true; ; first = false {
			wait := maxWait
			if first {
				wait = 0
			}
			batch, err := c.nextLogs(ctx, &core.VerbFollowLogs, cursor, wait)
			if err != nil {
				yield(nil, err)
				return
			}
			cursor = batch.Cursor
			if (first || len(batch.Data) > 0) && !yield(batch, nil) {
				return
			}
		}
	}
}

// NextLogs returns the entries after a cursor. See [vault.Client.NextLogs].
// It waits for whole seconds, and at most for half of [Options].Timeout.
func (c *Client) NextLogs(ctx context.Context, cursor string, wait time.Duration) (*vault.LogBatch, error) {
	return c.nextLogs(ctx, &core.VerbNextLogs, cursor, wait)
}

// maxWait is the longest wait for entries that the client requests.
const maxWait = 20 * time.Second

func (c *Client) nextLogs(ctx context.Context, verb *core.Verb, cursor string, wait time.Duration) (*vault.LogBatch, error) {
	wait = min(wait, maxWait, c.opts.Timeout/2)
	query := url.Values{"wait": {fmt.Sprint(int(max(wait, 0).Seconds()))}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return get[vault.LogBatch](ctx, c, verb, "/logs/follow", query.Encode())
}
