package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Proof proves that an entry is in the log of a tenant. Its text is a C2SP
// tlog-proof over the tenant's tree. The extra data is JSON. It has the
// entry, and the proof of the tenant's head in the vault's tree:
//
//	{"kind":"entry","id":ID,"c":C,"mac":M,"entry":{...},"head":P,"note":N}
type Proof struct {
	Index    int64
	Hashes   []Hash // inclusion in the tenant's tree
	Note     []byte // over the tenant's tree
	Leaf     Leaf   // N is ignored
	Head     Proven // head of the tenant's tree, in the vault's tree
	HeadNote []byte // over the vault's tree
}

const proofHeader = "c2sp.org/tlog-proof@v1\n"

// maxProof is the maximum size of a proof in bytes.
const maxProof = maxLine

// proofExtra is the extra data of a proof.
type proofExtra struct {
	leafBody
	Head Proven `json:"head"`
	Note string `json:"note"`
}

// Text returns the proof as a tlog-proof.
func (p *Proof) Text() []byte {
	extra := proofExtra{p.Leaf.body(), p.Head, string(p.HeadNote)}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sextra %s\nindex %d\n", proofHeader, base64.StdEncoding.EncodeToString(encode(extra)), p.Index)
	for _, h := range p.Hashes {
		fmt.Fprintf(&b, "%s\n", h)
	}
	b.WriteByte('\n')
	b.Write(p.Note)
	return b.Bytes()
}

// Proved is the content of a valid proof.
type Proved struct {
	Tenant uuid.UUID
	Index  int64
	ID     uuid.UUID // id of the entry
	Kind   Kind
	// Fields are the entry's fields by name. It is nil if the proof does not
	// contain them, because they were erased.
	Fields map[string]string
}

var errProof = errors.New("evidence: not a proof")

// VerifyProof returns an error if the proof of an entry is not valid for a
// key.
func VerifyProof(proof []byte, vkey string) error {
	_, err := OpenProof(proof, vkey)
	return err
}

// OpenProof returns the content of a proof if it is valid for a key.
func OpenProof(proof []byte, vkey string) (*Proved, error) {
	key, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, fmt.Errorf("evidence: the key: %w", err)
	}
	p, err := parseProof(proof)
	if err != nil {
		return nil, err
	}
	tree, err := OpenCheckpoint(p.note, key)
	if err != nil {
		return nil, err
	}
	vault, err := OpenCheckpoint([]byte(p.extra.Note), key)
	if err != nil {
		return nil, err
	}
	return p.check(key.Name(), tree, vault)
}

// parsedProof is a parsed proof.
type parsedProof struct {
	extra  proofExtra
	index  int64
	hashes []Hash
	note   []byte
}

func parseProof(text []byte) (*parsedProof, error) {
	rest, ok := strings.CutPrefix(string(text), proofHeader)
	if !ok || len(text) > maxProof {
		return nil, errProof
	}
	head, msg, ok := strings.Cut(rest, "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(lines) < 2 {
		return nil, errProof
	}
	p := &parsedProof{note: []byte(msg)}
	extra, err := decodeBase64(strings.CutPrefix(lines[0], "extra "))
	if err != nil || json.Unmarshal(extra, &p.extra) != nil || !bytes.Equal(encode(p.extra), extra) {
		return nil, errProof
	}
	digits, ok := strings.CutPrefix(lines[1], "index ")
	p.index, err = strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || strconv.FormatInt(p.index, 10) != digits {
		return nil, errProof
	}
	for _, line := range lines[2:] {
		h, err := decodeBase64(line, true)
		if err != nil || len(h) != tlog.HashSize {
			return nil, errProof
		}
		p.hashes = append(p.hashes, Hash(h))
	}
	return p, nil
}

func decodeBase64(text string, ok bool) ([]byte, error) {
	if !ok {
		return nil, errProof
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

// check follows the proof from the entry to the signed root of the vault's tree.
func (p *parsedProof) check(name string, tree, vault *Checkpoint) (*Proved, error) {
	origin, tenant := splitOrigin(tree.Origin)
	if _, err := Restores(name, origin); err != nil {
		return nil, err
	}
	if vault.Origin != origin || tenant == (uuid.UUID{}) {
		return nil, errors.New("evidence: the notes of the proof are about different logs")
	}
	head, err := p.extra.Head.Open(vault)
	if err != nil {
		return nil, err
	}
	if head.Kind != EventHead || head.Tenant != tenant || head.Size != tree.Size || head.Root != tree.Root {
		return nil, errors.New("evidence: the head of the proof is of another tree")
	}
	x := &p.extra
	if tlog.CheckRecord(p.hashes, tree.Size, tree.Root, p.index, LeafHash(x.Kind, x.ID, x.C)) != nil {
		return nil, errors.New("evidence: the proof does not hold")
	}
	proved := &Proved{Tenant: tenant, Index: p.index, ID: x.ID, Kind: x.Kind}
	if x.Entry == nil && x.Mac == nil {
		return proved, nil
	}
	if x.Entry == nil || len(x.Mac) != len(Mac{}) || x.Entry.ID != x.ID.String() || x.Entry.commit(tenant, Mac(x.Mac)) != x.C {
		return nil, errors.New("evidence: the entry of the proof was altered")
	}
	if err := json.Unmarshal(encode(x.Entry), &proved.Fields); err != nil {
		return nil, errProof
	}
	return proved, nil
}
