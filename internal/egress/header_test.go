package egress

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestRemoveHopByHop(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"Connection":        {"keep-alive, x-private ,,", "\tX-Other"},
		"X-Private":         {"1"},
		"X-Other":           {"1", "2"},
		"Keep-Alive":        {"timeout=5"},
		"Proxy-Connection":  {"close"},
		"Te":                {"trailers"},
		"Trailer":           {"X-Sum"},
		"Transfer-Encoding": {"chunked"},
		"Upgrade":           {"websocket"},
		"Content-Type":      {"text/plain"},
		"X-Kept":            {"1"},

		"Proxy-Authenticate": {"Basic"}, "Proxy-Authorization": {"Basic x"},
	}
	RemoveHopByHop(header)
	must.Same(t, "header", http.Header{"Content-Type": {"text/plain"}, "X-Kept": {"1"}}, header)
}

func TestCheckHeader(t *testing.T) {
	t.Parallel()
	good := http.Header{
		"Accept": {"*/*", ""}, "X-Text": {"a\tb \"quoted\" ü"}, "Content-Length": {"5"}, "X-1.2~": {"\xff"},
	}
	must.Match(t, "a good header", CheckHeader(good), nil)
	for _, bad := range []http.Header{
		{"": {"x"}}, {"A B": {"x"}}, {"A:": {"x"}}, {"A\r\nB": {"x"}}, {"Ü": {"x"}}, {"A\x00": {"x"}},
		{"content-length": {"5"}}, {"TRANSFER-ENCODING": {"chunked"}}, {"x-lower": {"x"}},
		{"X-Secret": {"4242\r\nX-More: 1"}}, {"X-Secret": {"ok", "4242\n"}}, {"X-Secret": {"4242\r"}},
		{"X-Secret": {"4242\x00"}}, {"X-Secret": {"4242\x7f"}},
	} {
		err := CheckHeader(bad)
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%q: %v, want ErrForbidden", bad, err)
		} else if strings.Contains(err.Error(), "4242") || strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%q: the text quotes it: %v", bad, err)
		}
	}
}
