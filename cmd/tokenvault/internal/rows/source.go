// Package rows reads the files of an import: rows of JSON or CSV, compressed and
// sealed, and how far the import is.
package rows

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"filippo.io/age"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
)

// Formats of rows.
const (
	formatJSONL = "jsonl"
	formatCSV   = "csv"
)

// PassphraseVariable is the environment variable with the passphrase of an
// OpenPGP key.
const PassphraseVariable = "TOKENVAULT_PGP_PASSPHRASE"

// Source is a file to import. It is decrypted while it is read.
type Source struct {
	format    string
	delimiter rune
	size      int64  // 0 if unknown
	check     string // distinguishes files; empty if it is not a regular file
	fields    []field
	typ       string

	reader io.Reader
	file   *os.File // nil for standard input
	// temporary is the name of a file to delete with the source, or "".
	temporary string
	counted   atomic.Int64 // bytes of the file read so far
}

// Close closes the file, and deletes it if it is temporary.
func (s *Source) Close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	if s.temporary != "" {
		_ = os.Remove(s.temporary)
	}
}

// Part returns the fraction of the file that has been read, or -1.
func (s *Source) Part() float64 {
	if s.size <= 0 {
		return -1
	}
	return min(1, float64(s.counted.Load())/float64(s.size))
}

// countingReader counts the bytes of a file.
type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// Options say how to read a file of rows.
type Options struct {
	Type       string     // of rows without a type
	Format     string     // jsonl or csv; empty for the ending of the name
	Columns    serve.List // field=column, for CSV
	Delimiter  string     // between the columns of CSV; empty for the default
	Identity   string     // file with an age identity
	PGPKey     string     // file with an OpenPGP private key
	Passphrase func() string
	Stdin      io.Reader // for the name -
}

// Open opens the file or stream to import.
func Open(name string, p *Options) (*Source, error) {
	s := &Source{typ: p.Type, delimiter: ','}
	var err error
	if s.fields, err = parseMap(p.Columns); err != nil {
		return nil, err
	}
	layers, err := s.name(name, p)
	if err != nil {
		return nil, err
	}
	sealed := slices.Contains(layers, layerPGP)
	raw, err := s.open(p.Stdin, name, sealed)
	if err == nil && sealed {
		err = s.verify(layers, p)
	}
	if err == nil {
		s.reader, err = s.unwrapped(raw, layers, p)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open opens the file or standard input. A sealed source must be read twice,
// so a stream is first copied to a temporary file, still sealed.
func (s *Source) open(stdin io.Reader, name string, sealed bool) (io.Reader, error) {
	if name == "-" && !sealed {
		return stdin, nil
	}
	if name == "-" {
		return s.spool(stdin)
	}
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	s.file = f
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		s.size, s.check = info.Size(), checkOf(f)
		return f, nil
	}
	if !sealed {
		return f, nil
	}
	defer func() { _ = f.Close() }() // a pipe
	return s.spool(f)
}

// spool copies a stream to a temporary file, which close deletes.
func (s *Source) spool(from io.Reader) (io.Reader, error) {
	f, err := os.CreateTemp("", "tokenvault-import-*")
	if err != nil {
		return nil, err
	}
	s.file, s.temporary = f, f.Name()
	if _, err := io.Copy(f, from); err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// verify reads the whole file, because only the end of an OpenPGP message
// shows whether it was altered. No part of an altered message may be
// imported.
func (s *Source) verify(layers []string, p *Options) error {
	r, err := s.unwrapped(s.file, layers, p)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		return fmt.Errorf("the file is damaged or was altered, so nothing was imported: %w", err)
	}
	s.counted.Store(0)
	_, err = s.file.Seek(0, io.SeekStart)
	return err
}

// unwrapped returns a reader without the layers.
func (s *Source) unwrapped(raw io.Reader, layers []string, p *Options) (r io.Reader, err error) {
	r = bufio.NewReaderSize(&countingReader{raw, &s.counted}, 1<<20)
	for _, layer := range layers {
		if r, err = unwrap(layer, r, p); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkOf returns two bytes of the hash of the first block of a file. They
// distinguish files, but are too short to guess the content of a small file.
func checkOf(f io.ReaderAt) string {
	block := make([]byte, 64<<10)
	n, _ := f.ReadAt(block, 0) // errors are reported when the rows are read
	sum := sha256.Sum256(block[:n])
	return hex.EncodeToString(sum[:2])
}

// Layers around the rows, such as encryption.
const (
	layerGzip = ".gz"
	layerAge  = ".age"
	layerPGP  = ".pgp"
)

// name parses the suffixes of a file name: its layers and its format.
func (s *Source) name(name string, p *Options) ([]string, error) {
	var layers []string
	seen := map[string]bool{}
	for {
		ext := strings.ToLower(filepath.Ext(name))
		layer := map[string]string{".gz": layerGzip, ".age": layerAge, ".pgp": layerPGP, ".gpg": layerPGP, ".asc": layerPGP}[ext]
		if layer == "" {
			break
		}
		layers, name = append(layers, layer), strings.TrimSuffix(name, filepath.Ext(name))
		seen[layer] = true
	}
	if p.Identity != "" && !seen[layerAge] {
		layers = append([]string{layerAge}, layers...)
	}
	if p.PGPKey != "" && !seen[layerPGP] {
		layers = append([]string{layerPGP}, layers...)
	}
	return layers, s.setFormat(name, p)
}

func (s *Source) setFormat(name string, p *Options) error {
	ext := strings.ToLower(filepath.Ext(name))
	if ext == ".tsv" {
		s.delimiter = '\t'
	}
	if p.Delimiter != "" {
		runes := []rune(p.Delimiter)
		if len(runes) != 1 || strings.ContainsRune("\"\r\n", runes[0]) {
			return shell.Usagef("--delimiter takes one character, but not a quote or line break")
		}
		s.delimiter = runes[0]
	}
	byName := map[string]string{".jsonl": formatJSONL, ".ndjson": formatJSONL, ".json": formatJSONL, ".csv": formatCSV, ".tsv": formatCSV}
	switch s.format = p.Format; {
	case s.format == formatJSONL || s.format == formatCSV:
	case s.format != "":
		return shell.Usagef("--format takes jsonl or csv")
	case name == "-":
		s.format = formatJSONL
	case byName[ext] == "":
		return shell.Usagef("the file name does not show the format: use --format jsonl or csv")
	default:
		s.format = byName[ext]
	}
	if s.format == formatJSONL && len(s.fields) > 0 {
		return shell.Usagef("--map is for CSV; the rows of this file are JSON")
	}
	return nil
}

// unwrap removes a layer.
func unwrap(layer string, r io.Reader, p *Options) (io.Reader, error) {
	switch layer {
	case layerGzip:
		return gzip.NewReader(r)
	case layerAge:
		return openAge(r, p.Identity)
	}
	return openPGP(r, p)
}

func openAge(r io.Reader, file string) (io.Reader, error) {
	if file == "" {
		return nil, shell.Usagef("the file is sealed with age: give the file with the identity in --identity")
	}
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	identities, err := age.ParseIdentities(f)
	if err != nil {
		return nil, errors.New("the file of --identity holds no age identity")
	}
	clear, err := age.Decrypt(r, identities...)
	if err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	return clear, nil
}

// openPGP decrypts an OpenPGP message. Only its end shows whether it is
// intact: see verify.
func openPGP(r io.Reader, p *Options) (io.Reader, error) {
	if p.PGPKey == "" {
		return nil, shell.Usagef("the file is sealed with OpenPGP: give the file with the private key in --pgp-key")
	}
	keys, err := readKeyRing(p.PGPKey)
	if err != nil {
		return nil, err
	}
	if r, err = dearmored(r); err != nil {
		return nil, err
	}
	asked := false
	prompt := func(candidates []openpgp.Key, symmetric bool) ([]byte, error) {
		passphrase := []byte(p.Passphrase())
		if asked || len(passphrase) == 0 {
			return nil, fmt.Errorf("the key needs its passphrase in %s", PassphraseVariable)
		}
		asked = true
		for _, k := range candidates {
			_ = k.PrivateKey.Decrypt(passphrase) // keys with another passphrase stay locked
		}
		return passphrase, nil
	}
	message, err := openpgp.ReadMessage(r, keys, prompt, &packet.Config{})
	if err != nil {
		return nil, fmt.Errorf("open the OpenPGP message: %w", err)
	}
	return message.UnverifiedBody, nil
}

func readKeyRing(file string) (openpgp.EntityList, error) {
	text, err := shell.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := dearmored(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	keys, err := openpgp.ReadKeyRing(r)
	if err != nil || len(keys) == 0 {
		return nil, errors.New("the file of --pgp-key holds no OpenPGP private key")
	}
	return keys, nil
}

// dearmored removes the ASCII armor, if there is one.
func dearmored(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if start, _ := b.Peek(1); len(start) == 0 || start[0] != '-' {
		return b, nil
	}
	block, err := armor.Decode(b)
	if err != nil {
		return nil, errors.New("the armor of the OpenPGP data is damaged")
	}
	return block.Body, nil
}

// Rows returns the rows of the file after the first done rows.
func (s *Source) Rows(done int) (iter.Seq2[vault.TokenParams, error], error) {
	read := s.jsonRows
	if s.format == formatCSV {
		read = s.csvRows
	}
	all, err := read()
	if err != nil {
		return nil, err
	}
	return func(yield func(vault.TokenParams, error) bool) {
		n := 0
		for row, err := range all {
			if n++; n <= done && (err == nil || errors.Is(err, vault.ErrInvalid)) {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}, nil
}
