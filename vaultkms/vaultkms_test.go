package vaultkms

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// helper is the only argument of this test binary as the program of a key.
const helper = "helper"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == helper {
		help()
		return
	}
	os.Exit(m.Run())
}

// help is a program of a key that returns what it gets.
func help() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r struct {
			ID   int64  `json:"id"`
			Data []byte `json:"data"`
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			os.Exit(3)
		}
		text, _ := json.Marshal(r)
		fmt.Println(string(text))
	}
}

func TestURIs(t *testing.T) {
	t.Setenv("VAULT_ADDR", "http://127.0.0.1:1")
	for _, uri := range []string{"", "exec:", "exec: ", "file:///key", "awskms", "hashivault://user:hunter2@key", "://hunter2",
		"awskms:///alias/vault?region=x&Token=hunter2", "awskms:///alias/vault?region=x&pin=hunter2", "azurekeyvault://acme.vault.azure.net/keys/k?pin=hunter2"} {
		key, err := Open(t.Context(), uri)
		if err == nil || key != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, %v", uri, key, err)
		}
	}
	for _, uri := range []string{"exec:true", "awskms:///alias/vault?region=x", "hashivault://key", "azurekeyvault://acme.vault.azure.net/keys/k"} {
		key := must.Get(Open(t.Context(), uri))(t)
		must.Do(t, key.(io.Closer).Close())
	}
}

// Each package links only its own service's client.
func TestProvidersLinkOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	clients := map[string]*regexp.Regexp{
		"awskms":        regexp.MustCompile(`^github\.com/aws/`),
		"gcpkms":        regexp.MustCompile(`^(cloud\.google\.com/go|google\.golang\.org/(grpc|api))/`),
		"azurekeyvault": regexp.MustCompile(`^github\.com/(Azure|AzureAD)/`),
		"hashivault":    regexp.MustCompile(`^github\.com/hashicorp/`),
		"execkey":       regexp.MustCompile(`^os/exec$`),
	}
	for name := range clients {
		out := must.Get(exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+name).Output())(t)
		deps := strings.Fields(string(out))
		t.Logf("%s links %d packages", name, len(deps))
		for other, client := range clients {
			links := false
			for _, dep := range deps {
				links = links || client.MatchString(dep)
			}
			if links != (name == other) && other != "execkey" {
				t.Errorf("%s links the client of %s: %v", name, other, links)
			}
		}
	}
}
