package httpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
)

// reactLease is how long the idempotency key of a run is kept if its node
// dies. It is a minute longer than a run can take.
const reactLease = 70 * time.Second

// react runs a reactor. Its code has effects outside the vault, so the
// idempotency key is claimed before it runs. A run with a callback URL is
// accepted at once; the callback gets the result.
func react() operation {
	return operation{takes: jsonBody, lease: reactLease, run: func(ctx context.Context, in *input) (any, error) {
		if len(bytes.TrimSpace(in.body)) == 0 {
			in.body = []byte("{}")
		}
		p, err := decode[vault.ReactParams](ctx, in)
		if err != nil {
			return nil, err
		}
		if p.CallbackURL == "" {
			return in.client.React(ctx, entityID(in.id), p)
		}
		return in.client.ReactAsync(ctx, entityID(in.id), p)
	}}
}

// customAnswer returns the response that a tenant's code built by throwing
// it. A string body is sent as text, any other body as JSON.
func customAnswer(r *script.Response) answer {
	a := answer{status: r.Status, body: r.Body, header: http.Header{}}
	var text string
	if json.Unmarshal(r.Body, &text) == nil {
		a.body = []byte(text)
		a.header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	for name, values := range r.Header {
		if name = http.CanonicalHeaderKey(name); !computed[name] && !strings.HasPrefix(name, http.TrailerPrefix) {
			a.header[name] = values
		}
	}
	return a
}

// computed are headers that the server computes, or that concern its
// connection to the client.
var computed = map[string]bool{
	"Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Trailer": true, "Upgrade": true,
	"Date": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
}
