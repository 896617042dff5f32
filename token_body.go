package vault

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/query"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// token is a token in clear. It lives for the length of a call.
type token struct {
	row  *storage.Token
	body tokenBody
	cvc  string // empty without one, and once its hour has passed
}

// tokenBody is what is sealed of a token, the cvc excepted. Mask, indexes and
// fingerprint expression are as the caller gave them; what is not given is the
// type's default and computed anew each time.
type tokenBody struct {
	spec        *tokenSpec  // of the token's type
	data        jsonx.Value // without the cvc
	mask        jsonx.Value
	metadata    map[string]string
	indexes     []string // nil: the default; empty: none
	fingerprint string   // of the expression; empty: the default
	dedup       *bool
	cvcAt       int // where among the members the cvc was given

	work *int // what expressions may take, together with other tokens; nil: each for itself
}

// cvcLife is how long a cvc is kept.
const cvcLife = time.Hour

func (t *token) typ() TokenType { return TokenType(t.row.Type) }

func (t *token) entity() entity { return entity{t.row.Type, t.row.ID} }

// plain returns the data with the cvc where it was given.
func (t *token) plain() jsonx.Value {
	if t.cvc == "" {
		return t.body.data
	}
	members := slices.Clone(t.body.data.Members())
	at := min(t.body.cvcAt, len(members))
	cvc := jsonx.Member{Name: "cvc", Value: jsonx.StringValue(t.cvc)}
	return jsonx.ObjectValue(slices.Insert(members, at, cvc)...)
}

func (b *tokenBody) maskInForce() jsonx.Value {
	if !b.mask.IsZero() {
		return b.mask
	}
	if m := b.spec.mask(b.data); m != nil {
		return m.value
	}
	return jsonx.Value{}
}

// maskText returns the mask in force as JSON, which is the caller's to change;
// nil where there is none.
func (b *tokenBody) maskText() JSON {
	if !b.mask.IsZero() {
		return b.mask.JSON()
	}
	if m := b.spec.mask(b.data); m != nil {
		return bytes.Clone(m.text)
	}
	return nil
}

// maskTree returns the mask in force, compiled; nil where there is none.
func (b *tokenBody) maskTree() (*expr.Tree, error) {
	if !b.mask.IsZero() {
		return expr.CompileTree(b.mask)
	}
	if m := b.spec.mask(b.data); m != nil {
		return m.tree, nil
	}
	return nil, nil
}

func (b *tokenBody) indexesInForce() []string {
	if b.indexes == nil {
		return b.spec.indexes
	}
	return b.indexes
}

func (b *tokenBody) fingerprintInForce() string {
	if b.fingerprint == "" {
		return b.spec.fingerprint.source
	}
	return b.fingerprint
}

// fingerprintTemplate returns the fingerprint expression in force, compiled.
func (b *tokenBody) fingerprintTemplate() (*expr.Template, error) {
	if b.fingerprint == "" {
		return b.spec.fingerprint.template, nil
	}
	return expr.Compile(b.fingerprint)
}

// env is what expressions over this token see: its data, the cvc excepted, and
// metadata where it is given.
func (b *tokenBody) env(metadata jsonx.Value) expr.Env {
	env := expr.Data(b.data, metadata)
	env.Work = b.work
	return env
}

// masked evaluates the mask. A mask that is absent, or fails on this data,
// shows nothing.
func (b *tokenBody) masked() jsonx.Value {
	tree, err := b.maskTree()
	if err != nil || tree == nil {
		return jsonx.Value{}
	}
	v, err := tree.Eval(b.env(jsonx.Value{}))
	if err != nil {
		return jsonx.Value{}
	}
	return v
}

// maskJSON evaluates the mask to JSON text; nil where there is no mask.
func (b *tokenBody) maskJSON() (JSON, error) {
	tree, err := b.maskTree()
	if err != nil || tree == nil {
		return nil, err
	}
	return tree.JSON(b.env(jsonx.Value{}))
}

// fingerprintValue evaluates the fingerprint expression to the text that is
// fingerprinted.
func (b *tokenBody) fingerprintValue() (string, error) {
	t, err := b.fingerprintTemplate()
	if err != nil {
		return "", err
	}
	var metadata jsonx.Value
	if t.RefersTo("metadata") {
		metadata = form.TextMapValue(b.metadata)
	}
	v, err := t.Eval(b.env(metadata))
	if err != nil {
		return "", err
	}
	if v.IsNull() {
		return "", errNoValue
	}
	return stringOf(v), nil
}

// errNoValue keeps tokens that lack a value from all having one fingerprint, or
// asking for one id.
var errNoValue = errors.New("must give a value for this data")

// stringOf returns a string as it is, and anything else as compact JSON.
func stringOf(v jsonx.Value) string {
	if v.Kind() == jsonx.String {
		return v.Text()
	}
	return string(v.JSON())
}

// indexValues evaluates the search indexes. Each must give one value.
func (b *tokenBody) indexValues() ([]string, error) {
	indexes := b.indexesInForce()
	if len(indexes) == 0 {
		return nil, nil
	}
	bad := &form.Problems{}
	values := make([]string, 0, len(indexes))
	for i, src := range indexes {
		path := jsonx.JoinIndex("search_indexes", i)
		t, err := expr.Compile(src)
		if err != nil {
			bad.AddErr(path, err)
			continue
		}
		v, err := t.Eval(b.env(jsonx.Value{}))
		switch {
		case err != nil:
			bad.AddErr(path, err)
		case v.Kind() == jsonx.Array || v.Kind() == jsonx.Object || v.IsNull() || v.IsZero() || stringOf(v) == "":
			bad.Add(path, "must give one value that is not empty")
		default:
			values = append(values, stringOf(v))
		}
	}
	return values, asInvalid(bad)
}

// Labels of keyed hashes.
const (
	labelFingerprint = "fingerprint"
	labelExpression  = "expression"
	labelDuplicate   = "duplicate"
	labelMetadata    = "metadata"
	labelIndex       = "index"
	labelContainers  = "containers"
)

func (op *call) metadataHash(key, value string) storage.Hash {
	return op.state.ring.Hash(labelMetadata, key, query.Fold(value))
}

func (op *call) indexHash(value string) storage.Hash { return op.state.ring.Hash(labelIndex, value) }

// hashes returns what the token can be found by.
func (op *call) hashes(b *tokenBody) ([]storage.Hash, error) {
	values, err := b.indexValues()
	if err != nil {
		return nil, err
	}
	out := make([]storage.Hash, 0, len(b.metadata)+len(values))
	add := func(h storage.Hash) {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	for k, v := range b.metadata {
		add(op.metadataHash(k, v))
	}
	for _, v := range values {
		add(op.indexHash(v))
	}
	return out, nil
}

// index fills in the columns that are computed from the body: fingerprint,
// duplicate key and hashes.
func (op *call) index(t *token) error {
	value, fingerprintErr := t.body.fingerprintValue()
	hashes, hashesErr := op.hashes(&t.body)
	if fingerprintErr != nil || hashesErr != nil {
		bad := &form.Problems{}
		if fingerprintErr != nil {
			bad.AddErr("fingerprint_expression", fingerprintErr)
		}
		if hashesErr != nil {
			bad.AddAll("", fieldsOf(hashesErr))
		}
		return asInvalid(bad)
	}
	ring, row := op.state.ring, t.row
	row.Hashes = hashes
	row.Fingerprint = ring.MAC(labelFingerprint, row.Type, value)
	row.Expression = ring.HashName(labelExpression, t.body.fingerprintInForce())
	row.Dedup = storage.Hash{}
	if op.deduplicates(&t.body) {
		row.Dedup = ring.Hash(labelDuplicate, string(row.Fingerprint[:]), t.body.fingerprintInForce())
	}
	return nil
}

func (op *call) deduplicates(b *tokenBody) bool {
	if b.dedup != nil {
		return *b.dedup
	}
	return op.state.doc.Settings.DeduplicateTokens
}

// setContainers puts the token in containers.
func (op *call) setContainers(row *storage.Token, containers []string) {
	row.Containers = containers
	if len(containers) == 1 {
		row.Set = op.state.ring.HashName(labelContainers, containers[0])
		return
	}
	row.Set = op.state.ring.Hash(labelContainers, slices.Sorted(slices.Values(containers))...)
}

// boundParts is where tokenPlace and cvcPlace put what a field is bound to: the
// caller's, so that a place needs no memory of its own.
type boundParts [5]string

// tokenPlace binds a sealed field of a token to its row: to its id, its type,
// the containers it is in, and the times that end it.
func tokenPlace(row *storage.Token, field string, parts *boundParts) seal.Place {
	parts[0], parts[1] = row.Type, strings.Join(row.Containers, ",")
	parts[2], parts[3] = string(row.Ord[:]), bindTime(row.ExpiresAt)
	return seal.Place{Entity: "token", ID: row.ID, Field: field, Bound: parts[:4]}
}

// cvcPlace also binds when the cvc ends.
func cvcPlace(row *storage.Token, parts *boundParts) seal.Place {
	p := tokenPlace(row, "cvc", parts)
	parts[4] = bindTime(row.CVCExpiresAt)
	p.Bound = parts[:]
	return p
}

// sealToken fills in the sealed columns. All other columns must be set already.
func (op *call) sealToken(t *token) error {
	row := t.row
	row.KeyVersion = op.state.ring.Version()
	var parts boundParts
	place := tokenPlace(row, "body", &parts)
	var err error
	if row.Body, err = op.sealBody(&place, &t.body); err != nil {
		return err
	}
	row.CVC = nil
	if t.cvc == "" {
		row.CVCExpiresAt = time.Time{}
		return nil
	}
	place = cvcPlace(row, &parts)
	row.CVC, err = op.seal(&place, []byte(t.cvc))
	return err
}

// sealBody encrypts a body for its place.
func (op *call) sealBody(p *seal.Place, b *tokenBody) ([]byte, error) {
	spare := spareBodies.Get().(*bodyBuffer)
	plain := b.encode(spare.bytes)
	defer spare.release(plain)
	if len(plain) > op.v.cfg.MaxBytes {
		return nil, errorf(ErrTooLarge, "A token must have at most %d bytes.", op.v.cfg.MaxBytes)
	}
	return op.seal(p, plain)
}

// bodyBuffer holds an encoded body until it is sealed.
type bodyBuffer struct{ bytes []byte }

var spareBodies = sync.Pool{New: func() any { return &bodyBuffer{make([]byte, 0, 512)} }}

// maxSpareBody bounds the memory that is kept for the next body.
const maxSpareBody = 4096

// release gives the buffer back when its body, which may have outgrown it, is
// sealed.
func (s *bodyBuffer) release(plain []byte) {
	s.wipe(plain)
	spareBodies.Put(s)
}

// wipe clears the body and keeps its memory, unless that is much.
func (s *bodyBuffer) wipe(plain []byte) {
	clear(plain)
	s.bytes = nil
	if cap(plain) <= maxSpareBody {
		s.bytes = plain[:0]
	}
}

// openToken reads a row, which becomes part of the token.
func (op *call) openToken(ctx context.Context, row *storage.Token) (token, error) {
	t := token{row: row}
	row.Tenant = op.tenantID()
	var parts boundParts
	place := tokenPlace(row, "body", &parts)
	plain, err := op.open(ctx, &place, row.KeyVersion, row.Body)
	if err != nil {
		return t, err
	}
	t.body.spec = tokenSpecs[t.typ()]
	if t.body.spec == nil || t.body.decode(plain) != nil {
		return t, errors.New("vault: token " + uuid.UUID(row.Ord).String() + ": the sealed body is not what this version writes")
	}
	if row.CVC != nil && row.CVCExpiresAt.After(op.now) {
		place = cvcPlace(row, &parts)
		cvc, err := op.open(ctx, &place, row.KeyVersion, row.CVC)
		if err != nil {
			return t, err
		}
		t.cvc = string(cvc)
	}
	return t, nil
}
