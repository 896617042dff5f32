package notary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
)

// maxNote is the maximum size of a note, in bytes.
const maxNote = 64 << 10

// AnchorFile is an anchor in a file. Notes are appended, each followed by an empty
// line, and synced. Use it for storage that cannot be rewritten, or for a
// repository.
type AnchorFile string

// Latest returns the newest note, or nil if the file has none.
func (f AnchorFile) Latest(context.Context) ([]byte, error) {
	end, err := f.tail(2 * maxNote)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: the anchor: %w", err)
	}
	return lastNote(end), nil
}

// tail returns the last bytes of the file.
func (f AnchorFile) tail(most int64) ([]byte, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, end-most)
	return io.ReadAll(io.NewSectionReader(file, from, end-from))
}

var (
	blank     = []byte("\n\n")
	signature = []byte("— ")
)

// lastNote returns the last complete note of a text. It skips a note that a
// crash cut off. The empty line after the last note may be missing, because a
// file with a single saved note is an anchor too.
func lastNote(text []byte) []byte {
	if bytes.HasSuffix(text, blank[:1]) && !bytes.HasSuffix(text, blank) {
		text = append(text, '\n')
	}
	end := bytes.LastIndex(text, blank)
	for end >= 0 {
		start := bytes.LastIndex(text[:end], blank)
		if start < 0 {
			return nil
		}
		if bytes.HasPrefix(text[start+2:], signature) {
			body := 0
			if before := bytes.LastIndex(text[:start], blank); before >= 0 {
				body = before + 2
			}
			return bytes.Clone(text[body : end+1])
		}
		end = start
	}
	return nil
}

// Put adds a note.
func (f AnchorFile) Put(_ context.Context, msg []byte) error {
	file, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // notes are public
	if err != nil {
		return fmt.Errorf("evidence: the anchor: %w", err)
	}
	var separator []byte // ends a note that a crash cut off
	if end, err := f.tail(int64(len(blank))); err == nil && len(end) > 0 && !bytes.Equal(end, blank) {
		separator = blank
	}
	_, err = file.Write(slices.Concat(separator, msg, blank[:1]))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("evidence: the anchor: %w", err)
	}
	return nil
}

// AnchorHTTP is an anchor at a URL. POST adds a note, which is signed. GET returns
// the newest note, or 404.
type AnchorHTTP struct {
	URL    string
	Client *http.Client
}

// String hides the URL, which may hold a secret.
func (AnchorHTTP) String() string { return "vault.AnchorURL(hidden)" }

// Format prints the result of String for every verb.
func (h AnchorHTTP) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// MarshalText returns the result of String, for handlers of slog.
func (h AnchorHTTP) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Latest returns the newest note, or nil if the anchor has none.
func (h *AnchorHTTP) Latest(ctx context.Context) ([]byte, error) {
	status, body, err := h.do(ctx, http.MethodGet, nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound || status == http.StatusNoContent:
		return nil, nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("evidence: the anchor responds with status %d", status)
	}
	return body, nil
}

// Put adds a note.
func (h *AnchorHTTP) Put(ctx context.Context, msg []byte) error {
	status, _, err := h.do(ctx, http.MethodPost, msg)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("evidence: the anchor responds with status %d", status)
	}
	return err
}

func (h *AnchorHTTP) do(ctx context.Context, method string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.URL, bytes.NewReader(body))
	if err != nil {
		return 0, nil, errors.New("evidence: the URL of the anchor is not valid")
	}
	if body != nil {
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	// A redirect would send notes to a place that the operator did not choose.
	client := *h.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("evidence: the anchor does not respond: %w", err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxNote))
	return resp.StatusCode, got, err
}
