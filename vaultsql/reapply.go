package vaultsql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// ErrDrift means that tokens differ from the tags of their fields.
var ErrDrift = errors.New("vaultsql: tokens differ from the tags of their fields: call Reapply")

// CheckTags compares the tokens of dst with the tags of their fields (permission
// token:read). It returns an error that matches [ErrDrift] and has a [FieldError] for
// each field that differs. Call it in a test, or at the start of a program with some
// of the oldest rows, because a changed tag splits old rows from new ones.
//
// CheckTags compares the type, containers, search index, dedup, mask, metadata and
// expiry. Of a changed duration in expires= it finds the tokens that prove the change: a
// token that expires more than a minute too early or too late for its times of creation
// and change. It skips fields that have no token.
func CheckTags(ctx context.Context, c Reader, dst ...any) error {
	all, err := drifts(ctx, c, dst)
	if err != nil || len(all) == 0 {
		return err
	}
	errs := []error{ErrDrift}
	for _, d := range all {
		errs = append(errs, d.wrap(fmt.Errorf("the token has another %s", strings.Join(d.names(), ", "))))
	}
	return errors.Join(errs...)
}

// Reapply gives the tokens of dst what the tags of their fields say, after a tag was
// changed (permissions token:read and token:update, and the right to see the values).
// It returns the number of tokens that it changed. Pass some hundred rows at a time,
// and continue after the last row: the sum of the results is the progress. A second
// Reapply of the same rows changes nothing.
//
// Most changes keep the token. Type and dedup, and the containers of a dedup field, do
// not: the value is sealed again, and the field has another id, so write the rows
// afterwards, in the same transaction if c is a client of [vault.Client.InTx].
// [Unused] finds the former tokens. Fields whose token has expired or was deleted are
// skipped.
//
// A token that gets expires=, or another duration, expires this long after Reapply.
func Reapply(ctx context.Context, c API, dst ...any) (int, error) {
	all, err := drifts(ctx, c, dst)
	if err != nil {
		return 0, err
	}
	if err := learnMasks(ctx, c, all); err != nil {
		return 0, err
	}
	var again []*field
	changed := 0
	for _, d := range all {
		if d.again != "" {
			again = append(again, d.field)
			continue
		}
		if d.expires > 0 {
			now, err := c.Now(ctx)
			if err != nil {
				return changed, d.wrap(err)
			}
			d.patch["expires_at"] = now.Add(d.expires).Format(time.RFC3339Nano)
		}
		if _, err := c.PatchToken(ctx, d.head().id, d.patch); err != nil {
			return changed, d.wrap(err)
		}
		changed++
	}
	if err := resealed(ctx, c, again); err != nil {
		return changed, err
	}
	return changed + len(again), nil
}

// learnMasks reads the values of fields whose default mask is not known without them.
func learnMasks(ctx context.Context, c Reader, all []*drift) error {
	var values []*lookedUp
	o := newOpener(c)
	for _, d := range all {
		if d.unknownMask {
			l := &lookedUp{core{id: d.head().id}, &sealing{field: d.field}}
			o.add(&field{column: l, tag: d.tag, in: d.in, name: d.name})
			values = append(values, l)
		}
	}
	if err := o.run(ctx); err != nil {
		return err
	}
	for _, d := range all {
		if !d.unknownMask {
			continue
		}
		l := values[0]
		values = values[1:]
		if l.core.state != opened {
			return d.wrap(fmt.Errorf("the default mask depends on the value: %w", ErrMasked))
		}
		d.patch["mask"] = orNull(d.maskOf(l.old))
	}
	return nil
}

// orNull returns a mask for a patch. Null means the default of the type.
func orNull(mask string) any {
	if mask == "" {
		return nil
	}
	return mask
}

// resealed seals the values of fields in other tokens.
func resealed(ctx context.Context, c API, fields []*field) error {
	o := newOpener(c)
	for _, f := range fields {
		if f.head().state != opened {
			o.add(f)
		}
	}
	if err := o.run(ctx); err != nil {
		return err
	}
	now, err := clock(ctx, c, fields)
	if err != nil {
		return err
	}
	var new []*sealing
	for _, f := range fields {
		s, err := newSealing(f, now)
		if err != nil {
			return f.wrap(err)
		}
		new = append(new, s)
	}
	return create(ctx, c, new)
}

// drift is a field whose token differs from its tag.
type drift struct {
	*field
	again   string // the difference that needs another token; empty if a patch is enough
	patch   map[string]any
	expires time.Duration // from now on; zero to leave it

	unknownMask bool // the mask of the patch depends on the value
}

// names lists what differs.
func (d *drift) names() []string {
	if d.again != "" {
		return []string{d.again}
	}
	names := slices.Sorted(maps.Keys(d.patch))
	if d.expires > 0 {
		names = append(names, "expires_at")
	}
	return names
}

// drifts reads the tokens of dst and compares them with the tags. Values that are not
// sealed are left to Seal.
func drifts(ctx context.Context, c Reader, dst []any) ([]*drift, error) {
	fields, err := collect(dst)
	if err != nil {
		return nil, err
	}
	byID := map[string][]*field{}
	var ids []string
	for _, f := range fields {
		h := f.head()
		if h.id == "" || h.state == fresh || !token.CanBeID(h.id) {
			continue
		}
		if byID[h.id] == nil {
			ids = append(ids, h.id)
		}
		byID[h.id] = append(byID[h.id], f)
	}
	var all []*drift
	for some := range slices.Chunk(ids, batchSize) {
		page, err := c.ListTokens(ctx, vault.ListTokensParams{IDs: some, PageParams: vault.PageParams{Size: batchSize}})
		if err != nil {
			return nil, fmt.Errorf("vaultsql: %w", err)
		}
		tokens := map[string]*vault.Token{}
		for i := range page.Data {
			tokens[page.Data[i].ID] = &page.Data[i]
		}
		for _, id := range some {
			if tokens[id] == nil {
				continue // it has expired or was deleted
			}
			for _, f := range byID[id] {
				d, err := f.compare(tokens[id])
				if err != nil {
					return nil, f.wrap(err)
				}
				if d != nil {
					all = append(all, d)
				}
			}
		}
	}
	return all, nil
}

// compare returns how a token differs from the tag of its field, or nil.
func (f *field) compare(t *vault.Token) (*drift, error) {
	if t.Unreadable {
		return nil, errUnreadable
	}
	shared := strings.HasPrefix(t.FingerprintExpression, sharedPrefix)
	d := &drift{field: f, patch: map[string]any{}}
	switch {
	case t.Type != f.typ():
		d.again = "type"
	case shared != f.tag.dedup:
		d.again = "dedup"
	case shared && !slices.Equal(sharedIn(t.FingerprintExpression), f.tag.containers):
		d.again = "containers"
	}
	if d.again != "" {
		return d, nil
	}
	f.compareRules(t, d.patch)
	d.compareMask(t)
	if err := f.compareMetadata(t, shared, d.patch); err != nil {
		return nil, err
	}
	switch {
	case f.tag.expires > 0 && (t.ExpiresAt.IsZero() || f.endsElsewhen(t, shared)):
		d.expires = f.tag.expires
	case f.tag.expires == 0 && !t.ExpiresAt.IsZero() && !shared:
		d.patch["expires_at"] = nil
	}
	if len(d.patch) == 0 && d.expires == 0 {
		return nil, nil
	}
	return d, nil
}

// expirySlack is how far an expiry may be from the tag, because the vault reads
// its clock again when it creates the token, and clocks of nodes differ.
const expirySlack = time.Minute

// endsElsewhen reports whether a token expires at a time that its tag cannot have given
// it. A shared token may have a later time from another field.
func (f *field) endsElsewhen(t *vault.Token, shared bool) bool {
	last := t.CreatedAt
	if t.ModifiedAt.After(last) {
		last = t.ModifiedAt
	}
	early := t.ExpiresAt.Before(t.CreatedAt.Add(f.tag.expires - expirySlack))
	return early || !shared && t.ExpiresAt.After(last.Add(f.tag.expires+expirySlack))
}

// compareRules adds containers and indexes that differ to a patch.
func (f *field) compareRules(t *vault.Token, patch map[string]any) {
	containers := f.tag.containers
	if containers == nil {
		containers = []string{token.TypeOf(string(t.Type)).Container}
	}
	if !sameSet(containers, t.Containers) {
		patch["containers"] = containers
	}
	indexed := slices.Contains(t.SearchIndexes, wholeValue)
	nine := t.Type == vault.TypeSocialSecurityNumber || t.Type == vault.TypeEmployerIDNumber // indexed by default
	empty := t.Transform != vault.TransformRedact && string(t.Data) == `""`
	switch {
	case nine || empty:
	case f.tag.index && !indexed:
		patch["search_indexes"] = []string{wholeValue}
	case !f.tag.index && indexed:
		patch["search_indexes"] = []string{}
	}
}

// compareMask adds a mask that differs to the patch. The default mask of a text depends
// on its length, which the two default masks show, and other masks may not.
func (d *drift) compareMask(t *vault.Token) {
	mask := maskText(t.Mask)
	switch {
	case d.tag.mask != "":
		if mask != d.tag.mask {
			d.patch["mask"] = d.tag.mask
		}
	case t.Type != vault.TypeGeneric:
		if !token.IsDefaultMask(string(t.Type), t.Mask) {
			d.patch["mask"] = nil
		}
	case t.Mask == nil: // data that is no text
	case mask != maskLength && mask != maskLast4:
		d.patch["mask"], d.unknownMask = nil, true
	case t.Transform != vault.TransformRedact:
		if want := d.maskOf(t.Data); want != mask {
			d.patch["mask"] = orNull(want)
		}
	}
}

// compareMetadata adds metadata that differ to a patch. The token of a dedup field
// keeps the field and the person of the row that created it.
func (f *field) compareMetadata(t *vault.Token, shared bool, patch map[string]any) error {
	want, err := f.metadata()
	if err != nil {
		return err
	}
	differs := map[string]string{}
	for key, value := range want {
		if had := t.Metadata[key]; had != value && (!shared || had == "") {
			differs[key] = value
		}
	}
	if len(differs) > 0 {
		patch["metadata"] = differs
	}
	return nil
}

// sameSet compares containers, which the vault writes in lower case.
func sameSet(a, b []string) bool {
	lower := func(list []string) []string {
		out := []string{}
		for _, s := range list {
			out = append(out, strings.ToLower(s))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(lower(a), lower(b))
}

// sharedPrefix begins the fingerprint expressions of dedup fields.
const sharedPrefix = "vaultsql "

// sharedIn returns the containers in the fingerprint expression of a dedup field.
func sharedIn(expression string) []string {
	words := strings.Fields(strings.TrimSuffix(expression, wholeValue))
	if len(words) <= 2 {
		return nil
	}
	return words[2:]
}
