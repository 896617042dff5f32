package vaultclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Maximum lengths in bytes.
const (
	maxKey = 1000
	maxJWT = 8 << 10 // of a JWT, which follows the id of an application and a colon
)

// checkKey rejects text that cannot be an API key or cannot be sent in a
// header.
func checkKey(key string) error {
	_, jwt, isJWT := strings.Cut(key, ":")
	if key == "" || len(key) > maxKey && !isJWT || len(jwt) > maxJWT || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("vaultclient: the API key must have 1 to %d visible ASCII characters", maxKey)
	}
	return nil
}

// apiKey returns the key for one request.
func (c *Client) apiKey(ctx context.Context) (string, error) {
	key, err := c.key(ctx)
	if err != nil {
		return "", fmt.Errorf("vaultclient: there is no API key for the request: %w", err)
	}
	if c.opts.Key != nil {
		err = checkKey(key)
	}
	return key, err
}

// IdentityFile returns a function for [Options.Key] with which a workload acts as an
// application. The file has a JWT, as Kubernetes and SPIFFE provide it. It is read for
// each request, so that a JWT that the platform has replaced is used at once. While the
// platform writes the file, which then has no complete JWT, the previous JWT is used.
//
// The application is an id, or its text.
func IdentityFile[ID uuid.UUID | string](application ID, path string) func(context.Context) (string, error) {
	var mu sync.Mutex
	var last string
	return func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		jwt, err := readJWT(path)
		if err == nil {
			last = fmt.Sprint(application) + ":" + jwt
		}
		if last != "" {
			err = nil
		}
		return last, err
	}
}

// errNotJWT does not name the content, which may be a secret.
var errNotJWT = errors.New("the file has no JWT, or a JWT of more than 8 KiB")

// readJWT reads a JWT from a file.
func readJWT(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 2*maxJWT))
	if err != nil {
		return "", err
	}
	jwt := strings.TrimSpace(string(text))
	if parts := strings.Split(jwt, "."); len(parts) != 3 || parts[2] == "" || len(jwt) > maxJWT || strings.ContainsAny(jwt, " \r\n\t") {
		return "", fmt.Errorf("%s: %w", path, errNotJWT)
	}
	return jwt, nil
}
