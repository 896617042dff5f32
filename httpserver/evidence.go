package httpserver

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// contentText is the content type of notes and proofs.
const contentText = "text/plain; charset=utf-8"

// plainText returns an operation that sends the text that do returns.
func plainText(do func(*exchange) ([]byte, error)) operation {
	return operation{reads: true, evidence: true, stream: func(x *exchange) (answer, error) {
		text, err := do(x)
		return answer{status: http.StatusOK, header: http.Header{"Content-Type": {contentText}}, body: text}, err
	}}
}

// logConsistency returns the proof that the current log extends an earlier
// log.
func logConsistency() operation {
	return operation{reads: true, evidence: true, lists: true, stream: func(x *exchange) (answer, error) {
		query, err := url.ParseQuery(x.r.URL.RawQuery)
		if err != nil {
			return answer{}, invalid("", "the query cannot be read")
		}
		from, err := strconv.ParseInt(query.Get("from"), 10, 64)
		if err != nil || len(query["from"]) != 1 {
			return answer{}, invalid("from", "must be given once, as a whole number")
		}
		proof, err := x.client.LogConsistency(x.ctx, from)
		if err != nil {
			return answer{}, err
		}
		body, err := json.Marshal(proof)
		return answer{status: http.StatusOK, body: body}, err
	}}
}

// logEvidence streams a tenant's evidence bundle while it is read.
func logEvidence() operation {
	return operation{reads: true, evidence: true, stream: func(x *exchange) (answer, error) {
		b := &bundle{exchange: x, control: http.NewResponseController(x.w)}
		defer func() { _ = b.control.SetWriteDeadline(time.Time{}) }()
		out := bufio.NewWriterSize(b, smallBody)
		err := x.client.ExportEvidence(x.ctx, out)
		if err == nil {
			err = out.Flush()
		}
		if err != nil && b.begun {
			panic(http.ErrAbortHandler) // an incomplete bundle must not look like a complete one
		}
		return answer{status: http.StatusOK, streamed: b.sent, sent: b.begun}, err
	}}
}

// bundle is a writer that sends the response header with the first bytes. A
// bundle may take any time, as long as the caller reads it.
type bundle struct {
	*exchange
	control *http.ResponseController
	begun   bool
	sent    int
}

func (b *bundle) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.setHeaders(&answer{status: http.StatusNoContent, header: http.Header{"Content-Type": {contentLines}}}) // without a length
		b.w.WriteHeader(http.StatusOK)
	}
	_ = b.control.SetWriteDeadline(time.Now().Add(b.handler.opts.BodyTimeout))
	n, err := b.w.Write(p)
	b.sent += n
	return n, err
}
