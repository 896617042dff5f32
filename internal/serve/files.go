package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// Environment variables for the master key and a second master key.
const (
	masterKeyVariable = "TOKENVAULT_MASTER_KEY"
	otherKeyVariable  = "TOKENVAULT_OTHER_MASTER_KEY"
)

// private is the mode of files that hold keys.
const private = 0o600

// ReadKey returns the key in a text, or without one in a file. It returns nil
// without either.
func (d *Database) ReadKey(ctx context.Context, logger *slog.Logger, text, file string) (vault.AEAD, error) {
	switch {
	case text == "" && file == "":
		return nil, nil
	case text == "":
		content, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("read the master key: %w", err)
		}
		text = string(content)
	}
	key, err := d.ParseKey(ctx, logger, text)
	if err != nil {
		return nil, fmt.Errorf("the master key: %w", err)
	}
	return key, nil
}

// loadMasterKey returns the master key, and whether it had to be created.
func loadMasterKey(ctx context.Context, cfg *Config, logger *slog.Logger) (key vault.AEAD, created bool, err error) {
	key, err = cfg.ReadKey(ctx, logger, cfg.masterKey, cfg.KeyFile)
	inFile := cfg.masterKey == ""
	switch missing := inFile && errors.Is(err, fs.ErrNotExist) && cfg.rotateKeys == ""; {
	case missing && cfg.createKey:
		return createMasterKey(cfg.KeyFile)
	case missing:
		return nil, false, fmt.Errorf("there is no master key in %s: give --key-file or %s; for a new vault, --create-key makes one", cfg.KeyFile, masterKeyVariable)
	case inFile:
		warnOfReaders(cfg.KeyFile, logger)
	}
	return key, false, err
}

// warnOfReaders logs a warning if other users can read a key file.
func warnOfReaders(file string, logger *slog.Logger) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&^private != 0 {
		logger.Warn("other users can read the master key; set the mode of the file to 0600", "file", file)
	}
}

// otherMasterKey returns the second master key, if one is configured.
func otherMasterKey(ctx context.Context, cfg *Config, logger *slog.Logger) ([]vault.AEAD, error) {
	key, err := cfg.ReadKey(ctx, logger, cfg.otherKey, cfg.OtherKeyFile)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the second key: %w", err)
	case key == nil:
		return nil, nil
	case cfg.otherKey == "":
		warnOfReaders(cfg.OtherKeyFile, logger)
	}
	return []vault.AEAD{key}, nil
}

// createMasterKey writes a new master key. If another process is faster, it
// returns that process's key.
func createMasterKey(path string) (*vault.Key, bool, error) {
	key := vault.NewKey()
	err := NewFile(path, strings.NewReader(key.Text()+"\n").WriteTo)
	if errors.Is(err, fs.ErrExist) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, false, fmt.Errorf("read the master key: %w", err)
		}
		key, err = vault.ParseKey(string(text))
		return key, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("write the master key: %w", err)
	}
	return key, true, nil
}

// NewFile writes a file that only its owner can read. The file gets its name when
// it is complete and on disk, and never replaces an existing file. Write is the
// method WriteTo of a reader, or like it; its number does not matter.
func NewFile(path string, write func(io.Writer) (int64, error)) error {
	return writeFile(path, write, os.Link) // which fails if the file exists
}

// ReplaceFile is NewFile for a file that may exist. After a crash, either the old
// or the new content exists.
func ReplaceFile(path string, write func(io.Writer) (int64, error)) error {
	return writeFile(path, write, os.Rename)
}

func writeFile(path string, write func(io.Writer) (int64, error), name func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // unless it was renamed
	_, err = write(f)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(path)
}

// SyncFolder makes the name of a new file durable.
func SyncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// credentials are the API keys of a tenant's applications, as stored in the file.
type credentials struct {
	BaseURL       string `json:"base_url"`
	TenantID      string `json:"tenant_id"`
	PublicKey     string `json:"public_key"`
	PrivateKey    string `json:"private_key"`
	ManagementKey string `json:"management_key"`
}

// readCredentials reads the file. It returns nil if the file does not exist.
func readCredentials(path string) (*credentials, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	c := &credentials{}
	if json.Unmarshal(text, c) != nil || c.TenantID == "" {
		return nil, fmt.Errorf("%s does not hold credentials; remove it, or name another file with -credentials", path)
	}
	return c, nil
}

// write replaces the file.
func (c *credentials) write(path string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := ReplaceFile(path, bytes.NewReader(append(text, '\n')).WriteTo); err != nil {
		return fmt.Errorf("write the credentials: %w", err)
	}
	return nil
}
