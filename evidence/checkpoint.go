package evidence

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is the size and the root of a tree: a C2SP tlog-checkpoint.
type Checkpoint struct {
	Origin string // name of the tree
	Size   int64
	Root   Hash
}

// Errors of notes, for errors.Is.
var (
	// ErrSignature means that the key did not sign the note.
	ErrSignature = errors.New("evidence: the note is not signed by this key")
	// ErrNote means that the text is not a note over a tree.
	ErrNote = errors.New("evidence: not a checkpoint")
	// ErrOrigin means that a name cannot be the origin of a vault.
	ErrOrigin = errors.New("evidence: an origin has 1 to 255 bytes, and neither spaces, control characters nor plus signs")
)

// maxOrigin is the maximum length of the name of a tree, in bytes.
const maxOrigin = 255

// CheckOrigin returns an error if a name cannot be the origin of a vault. The
// origin is also the name of the vault's key.
func CheckOrigin(name string) error {
	bad := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '+' }
	if name == "" || len(name) > maxOrigin || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return ErrOrigin
	}
	return nil
}

// OriginAfter returns the origin of the vault's tree after a number of
// accepted restores. Without restores it is the name of the key.
func OriginAfter(name string, restores int) string {
	if restores == 0 {
		return name
	}
	return name + "/" + strconv.Itoa(restores+1)
}

// Restores returns the number of accepted restores from the origin of a
// vault's tree.
func Restores(name, origin string) (int, error) {
	if origin == name {
		return 0, nil
	}
	digits, ok := strings.CutPrefix(origin, name+"/")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 2 || strconv.Itoa(n) != digits {
		return 0, fmt.Errorf("%w: its origin is not of this key", ErrNote)
	}
	return n - 1, nil
}

// TenantOrigin returns the origin of a tenant's tree.
func TenantOrigin(origin string, tenant uuid.UUID) string { return origin + "/" + tenant.String() }

// splitOrigin splits the origin of a tenant's tree. The tenant is zero for
// the vault's tree.
func splitOrigin(origin string) (string, uuid.UUID) {
	i := strings.LastIndexByte(origin, '/')
	if i < 0 || len(origin)-i != 37 {
		return origin, uuid.UUID{}
	}
	id, err := uuid.Parse(origin[i+1:])
	if err != nil || id.String() != origin[i+1:] {
		return origin, uuid.UUID{}
	}
	return origin[:i], id
}

// Text returns the text to sign.
func (c *Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// Sign returns a note with the signatures of all signers.
func (c *Checkpoint) Sign(signers ...note.Signer) ([]byte, error) {
	return note.Sign(&note.Note{Text: c.Text()}, signers...)
}

// OpenCheckpoint returns the checkpoint in a note that one of the keys has
// signed. The error is ErrSignature or ErrNote.
func OpenCheckpoint(msg []byte, keys ...note.Verifier) (*Checkpoint, error) {
	n, err := note.Open(msg, note.VerifierList(distinct(keys)...))
	var (
		unverified *note.UnverifiedNoteError
		invalid    *note.InvalidSignatureError
	)
	switch {
	case errors.As(err, &unverified) || errors.As(err, &invalid):
		return nil, ErrSignature
	case err != nil:
		return nil, ErrNote
	case !strictSignatures(msg[len(n.Text):]):
		return nil, ErrSignature
	}
	return parseCheckpoint(n.Text)
}

// distinct drops duplicate keys, which would be ambiguous.
func distinct(keys []note.Verifier) (all []note.Verifier) {
	for _, k := range keys {
		same := func(other note.Verifier) bool { return other.Name() == k.Name() && other.KeyHash() == k.KeyHash() }
		if !slices.ContainsFunc(all, same) {
			all = append(all, k)
		}
	}
	return all
}

// strictSignatures reports whether every signature is in canonical base64.
func strictSignatures(lines []byte) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(lines, []byte("\n"))) {
		text := bytes.TrimSuffix(line[bytes.LastIndexByte(line, ' ')+1:], []byte("\n"))
		if _, err := base64.StdEncoding.Strict().DecodeString(string(text)); err != nil {
			return false
		}
	}
	return true
}

func parseCheckpoint(text string) (*Checkpoint, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 3 || lines[0] == "" {
		return nil, ErrNote
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return nil, ErrNote
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return nil, ErrNote
	}
	return &Checkpoint{Origin: lines[0], Size: size, Root: Hash(root)}, nil
}

// CheckConsistency returns an error if the newer tree does not extend the
// older one. The hashes are a consistency proof.
func CheckConsistency(older, newer *Checkpoint, hashes []Hash) error {
	switch {
	case older.Size == 0 && len(hashes) == 0 && newer.Size >= 0:
		return nil // every tree extends the empty one
	case older.Size == newer.Size && older.Root == newer.Root && len(hashes) == 0:
		return nil
	}
	if err := tlog.CheckTree(hashes, newer.Size, newer.Root, older.Size, older.Root); err != nil {
		return errors.New("evidence: the newer tree does not continue the older one")
	}
	return nil
}
