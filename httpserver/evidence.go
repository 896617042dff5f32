package httpserver

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// contentText is the content type of notes and proofs.
const contentText = "text/plain; charset=utf-8"

// plainText sends a text as it is.
func plainText(do func(*exchange) ([]byte, error)) operation {
	return operation{reads: true, evidence: true, stream: func(x *exchange) (answer, error) {
		text, err := do(x)
		return answer{status: http.StatusOK, header: http.Header{"Content-Type": {contentText}}, body: text}, err
	}}
}

// logCheckpoint returns the newest signed note.
func logCheckpoint() operation {
	return plainText(func(x *exchange) ([]byte, error) { return x.client.LogCheckpoint(x.ctx) })
}

// logProof returns the proof of an entry.
func logProof() operation {
	return plainText(func(x *exchange) ([]byte, error) { return x.client.LogProof(x.ctx, entityID(x.r.PathValue("id"))) })
}

// logConsistency returns the proof that a log continues what it was.
func logConsistency() operation {
	return operation{reads: true, evidence: true, lists: true, stream: func(x *exchange) (answer, error) {
		query, err := url.ParseQuery(x.r.URL.RawQuery)
		if err != nil {
			return answer{}, invalid("", "The query cannot be read.")
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

// logEvidence sends the bundle of a tenant as it is read.
func logEvidence() operation {
	return operation{reads: true, evidence: true, stream: func(x *exchange) (answer, error) {
		b := &bundle{exchange: x}
		out := bufio.NewWriterSize(b, smallBody)
		err := x.client.ExportEvidence(x.ctx, out)
		if err == nil {
			err = out.Flush()
		}
		if err != nil && b.begun {
			panic(http.ErrAbortHandler) // half of a bundle must not look like a whole one
		}
		return answer{status: http.StatusOK, streamed: b.sent, sent: b.begun}, err
	}}
}

// bundle sends the header of the response with the first bytes.
type bundle struct {
	*exchange
	begun bool
	sent  int
}

func (b *bundle) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.setHeaders(&answer{status: http.StatusNoContent, header: http.Header{"Content-Type": {contentLines}}}) // without a length
		b.w.WriteHeader(http.StatusOK)
	}
	n, err := b.w.Write(p)
	b.sent += n
	return n, err
}
