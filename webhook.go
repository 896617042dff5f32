package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/webhook"
	"github.com/seed-72ea4aab/vault/script"
)

// VerifyWebhook is for the receivers of callbacks: it returns nil when a request
// with this header and body was signed with the tenant's webhook secret within
// the last 5 minutes, and else an error that matches [ErrWebhook]. The body must
// be the bytes as they arrived.
//
// While a secret is being rotated callbacks carry two signatures, and either of
// the two secrets does. A callback may arrive more than once: its webhook-id, which
// is the ID of the [Job], stays the same.
func VerifyWebhook(secret string, header http.Header, body []byte) error {
	if err := webhook.Verify(secret, header, body, time.Now()); err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	return nil
}

// failedRun is the body of a callback about a run that failed.
type failedRun struct {
	Title  string              `json:"title"`
	Status int                 `json:"status"`
	Detail string              `json:"detail"`
	Errors map[string][]string `json:"errors,omitempty"`
	// Response is what the code chose to answer with, if it did.
	Response *chosenResponse `json:"response,omitempty"`
}

type chosenResponse struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    JSON              `json:"body"`
}

// callbackError describes why a run failed: the same error that a synchronous
// run answers with. An answer that the code chose in full is a part of it, so
// that receivers can tell it from a result.
func callbackError(err error) failedRun {
	known := hostError(err)
	out := failedRun{Title: http.StatusText(known.Status), Status: known.Status, Detail: known.Message, Errors: known.Errors}
	var failed *script.Error
	switch {
	case errors.As(err, &failed):
		out.Title, out.Detail = failed.Title, failed.Error()
		if r := failed.Response; r != nil {
			out.Response = &chosenResponse{r.Status, map[string]string{}, JSON(r.Body)}
			for name, values := range r.Header {
				out.Response.Headers[name] = strings.Join(values, ", ")
			}
			if r.Body != nil && !json.Valid(r.Body) { // a job that cannot be written would be run for ever
				out.Response.Body = jsonx.StringValue(string(r.Body)).JSON()
			}
		}
	case fieldsOf(err) != nil:
		out.Title, out.Detail = known.Message, "The request is invalid; errors lists what is wrong with each field."
	}
	return out
}
