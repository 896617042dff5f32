package serve

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
)

// linkLife is how long a link from tokenvault console link is valid.
const linkLife = 10 * time.Minute

// clockSkew is the tolerated difference between the clocks of two machines.
const clockSkew = time.Minute

// maxLink bounds the length of a sealed link.
const maxLink = 2000

// linkLabel separates the key of links from all other keys of the vault.
const linkLabel = "tokenvault console link"

// LinkKey returns the key of the links that sign in at the console of a vault. It is
// derived from the vault's own keys, and opens nothing else. Reading a link calls
// neither the holder of the master key nor the database. Only a holder of the master key
// and the database can make a link, and could read all data anyway.
func LinkKey(ctx context.Context, v *vault.Vault) (vault.AEAD, error) {
	c := core.CallerOf(v.Tenant(uuid.Nil)).Vault
	ring, err := keyring.Own(ctx, c.Store, c.Root)
	if err != nil {
		return nil, err
	}
	key := ring.MAC(linkLabel)
	return seal.NewAEAD(key[:])
}

// sealedLink is the content of a link from tokenvault console link.
type sealedLink struct {
	ID     string    `json:"id"`
	User   string    `json:"user"`
	Role   string    `json:"role"`
	Issued time.Time `json:"issued"`
}

// SealLink returns a URL that signs a user in at the console of a server of the vault
// whose LinkKey is given. It works once, within ten minutes.
func SealLink(key vault.AEAD, base, user string, role console.Role) (string, error) {
	if err := checkConsoleURL(base); err != nil {
		return "", &FlagError{err}
	}
	text, err := json.Marshal(sealedLink{ID: rand.Text(), User: user, Role: role.String(), Issued: time.Now().UTC()})
	if err != nil {
		return "", err
	}
	token, err := key.Encrypt(text, []byte(linkLabel))
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(base, "/") + "/?link=" + base64.RawURLEncoding.EncodeToString(token), nil
}

// ConsoleURL returns the URL of a console that listens on this machine.
func ConsoleURL(addr string, tls bool) (string, error) {
	if err := checkAddress("--console", addr); err != nil {
		return "", &FlagError{err}
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
		return "", &FlagError{fmt.Errorf("a console at a free port has a URL that only its server knows: give --console-url")}
	}
	return baseURL(addr, tls) + "/", nil
}

// linkReader accepts each sealed link once. It does not know which links earlier
// processes accepted, so it refuses links from before its start.
type linkReader struct {
	key   vault.AEAD
	now   func() time.Time
	begun time.Time

	mu   sync.Mutex
	used map[string]time.Time // when links were issued, by id
}

func newLinkReader(key vault.AEAD) *linkReader {
	return &linkReader{key: key, now: time.Now, begun: time.Now(), used: map[string]time.Time{}}
}

// accept returns the user that a link signs in.
func (l *linkReader) accept(token string) (console.User, bool) {
	link, ok := l.open(token)
	if !ok {
		return console.User{}, false
	}
	role, err := ParseRole(link.Role)
	now := l.now()
	if err != nil || link.User == "" || link.Issued.Before(l.begun) || now.Sub(link.Issued) > linkLife || link.Issued.Sub(now) > clockSkew {
		return console.User{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, taken := l.used[link.ID]; taken {
		return console.User{}, false
	}
	for id, issued := range l.used {
		if now.Sub(issued) > linkLife {
			delete(l.used, id)
		}
	}
	l.used[link.ID] = link.Issued
	return console.User{ID: link.User, Role: role}, true
}

// open opens a sealed link.
func (l *linkReader) open(token string) (link sealedLink, ok bool) {
	if len(token) > maxLink {
		return link, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return link, false
	}
	text, err := l.key.Decrypt(sealed, []byte(linkLabel))
	ok = err == nil && json.Unmarshal(text, &link) == nil
	return link, ok
}
