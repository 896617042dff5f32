package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/terminaltest"
)

func TestBannerHasColoursOnlyOnATerminal(t *testing.T) {
	t.Parallel()
	c := &credentials{"http://127.0.0.1:8080", "tenant-id", "key_pub_1", "key_prv_1", "key_mgt_1"}
	cfg := &Config{Database: Database{KeyFile: "k"}, demo: true, prefix: "SVC-", credentials: "c.json"}
	plain := `The vault is listening at http://127.0.0.1:8080

  tenant          tenant-id
  public key      key_pub_1
  private key     key_prv_1
  management key  key_mgt_1

The API keys are in c.json, and the master key is in k.
Anyone with the master key and the database can read everything.

Create a card token, read it masked, and tokenize a JSON document:

curl -sS -w '\n' -H 'SVC-API-KEY: key_pub_1' -H 'Content-Type: application/json' -d '` + demoCard + `' http://127.0.0.1:8080/tokens
curl -sS -w '\n' -H 'SVC-API-KEY: key_prv_1' 'http://127.0.0.1:8080/tokens?type=card&size=1'
curl -sS -w '\n' -H 'SVC-API-KEY: key_prv_1' -H 'Content-Type: application/json' -d '` + demoDocument + `' http://127.0.0.1:8080/tokenize

The API is described at http://127.0.0.1:8080/openapi.json. Ctrl-C stops the server.
`
	var out bytes.Buffer
	banner(&out, c, cfg, slog.New(slog.DiscardHandler))
	must.Same(t, "plain", plain, out.String())
	d := terminaltest.New(t, 80)
	banner(d.TTY, c, cfg, slog.New(slog.DiscardHandler))
	coloured := d.Finish()
	if !terminaltest.Colour.MatchString(coloured) {
		t.Error("no colours on a terminal")
	}
	must.Same(t, "on a terminal", strings.ReplaceAll(plain, "\ncurl", "\n\ncurl"), strings.ReplaceAll(terminaltest.Screen(coloured), "document:\n\ncurl", "document:\n\n\ncurl"))
}
