package runs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/script"
)

// Limits on fetches of tenant code.
const (
	maxFetched   = 5 << 20
	fetchTimeout = 30 * time.Second
)

// fetchRequest and fetchResponse are the JSON of the fetch operation.
type fetchRequest struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers [][2]string `json:"headers"`
	Body    string      `json:"body"` // base64
}

type fetchResponse struct {
	Status     int         `json:"status"`
	StatusText string      `json:"status_text"`
	URL        string      `json:"url"`
	Headers    [][2]string `json:"headers"`
	Body       string      `json:"body,omitempty"` // base64
}

// fetch performs a request of running code, in the form that package script
// describes. The memory of the response counts until the result is written.
func (h *host) fetch(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var in fetchRequest
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, &script.HostError{Status: http.StatusBadRequest, Message: "the request is malformed"}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := in.request(ctx)
	if err != nil {
		return nil, &script.HostError{Code: "ERR_INVALID_URL", Message: "the request is malformed"}
	}
	if _, err := h.runs.Egress.CheckURL(in.URL); err != nil {
		return nil, &script.HostError{Code: "EACCES", Message: err.Error()}
	}
	res, err := h.runs.Egress.DoForStranger(req, h.tenant.String(), h.lineage.Stranger)
	if err != nil {
		return nil, fetchError(err)
	}
	defer res.Body.Close()
	body, err := h.lineage.Bytes.Read(res.Body, maxFetched+1)
	defer h.lineage.Bytes.Release(len(body))
	switch {
	case errors.Is(err, core.ErrRunFull):
		return nil, err
	case err != nil: // the response was cut off
		return nil, fetchError(err)
	case len(body) > maxFetched:
		return nil, &script.HostError{Code: "ERR_BODY_TOO_LARGE", Message: "the response is larger than 5 MiB"}
	}
	return in.answer(res, body)
}

func (f *fetchRequest) request(ctx context.Context) (*http.Request, error) {
	body, err := base64.StdEncoding.DecodeString(f.Body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, f.Method, f.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range f.Headers {
		req.Header.Add(h[0], h[1])
	}
	egress.RemoveHopByHop(req.Header)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "vault")
	}
	return req, nil
}

func (f *fetchRequest) answer(res *http.Response, body []byte) (json.RawMessage, error) {
	out := fetchResponse{Status: res.StatusCode, StatusText: http.StatusText(res.StatusCode), URL: f.URL, Body: base64.StdEncoding.EncodeToString(body)}
	for name, values := range res.Header {
		for _, value := range values {
			out.Headers = append(out.Headers, [2]string{name, value})
		}
	}
	return json.Marshal(out)
}

// fetchError returns an error with the code that Node.js uses.
func fetchError(err error) *script.HostError {
	code := "ECONNREFUSED"
	switch {
	case errors.Is(err, egress.ErrForbidden):
		code = "EACCES"
	case errors.Is(err, egress.ErrBusy):
		return &script.HostError{Status: http.StatusTooManyRequests, Code: "EBUSY", Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		code = "ETIMEDOUT"
	}
	return &script.HostError{Code: code, Message: err.Error()}
}
