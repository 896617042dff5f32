package vaultsql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// Open reads the values of the fields of dst from the vault. Each dst is a
// pointer to a struct, or a slice of structs. Open skips values that are
// already in memory.
//
// A caller with token:use on the tokens gets the values. A caller with
// token:read gets the values that its rules reveal, and masks otherwise;
// [Of.Get] then returns [ErrMasked].
//
// Each call reads up to 100 distinct tokens, from any number of rows. A field
// whose token has expired or was deleted becomes absent. Open then still
// opens all other fields. It returns a [FieldError] for each absent field,
// which matches [vault.ErrNotFound]. After any other error, some fields may
// be open.
func Open(ctx context.Context, c Reader, dst ...any) error {
	fields, err := collect(dst)
	if err != nil {
		return err
	}
	o := newOpener(c)
	for _, f := range fields {
		if h := f.head(); h.state == sealed || h.state == masked || h.state == gone {
			o.add(f)
		}
	}
	return o.run(ctx)
}

// batchSize is the maximum number of tokens in a call.
const batchSize = 100

// opener opens fields in as few calls as possible.
type opener struct {
	c       Reader
	fields  []*field
	byID    map[string][]*field
	ids     map[*tag][]string // by tag, because tokens of one field usually have the same containers
	kinds   []*tag
	refused map[string]bool // sets of containers whose tokens the caller may not use
	readers map[*tag]bool   // kinds with tokens that the caller may not use
	denied  error           // of the last use that was refused
	missing []string
}

func newOpener(c Reader) *opener {
	return &opener{c: c, byID: map[string][]*field{}, ids: map[*tag][]string{}, refused: map[string]bool{}, readers: map[*tag]bool{}}
}

func (o *opener) add(f *field) {
	o.fields = append(o.fields, f)
	id := f.head().id
	if o.byID[id] == nil {
		if o.ids[f.tag] == nil {
			o.kinds = append(o.kinds, f.tag)
		}
		o.ids[f.tag] = append(o.ids[f.tag], id)
	}
	o.byID[id] = append(o.byID[id], f)
}

// run opens the fields.
func (o *opener) run(ctx context.Context) error {
	var all []string
	for _, kind := range o.kinds {
		for _, id := range o.ids[kind] {
			if !token.CanBeID(id) {
				o.missing = append(o.missing, id)
				continue
			}
			all = append(all, id)
		}
	}
	for batch := range slices.Chunk(all, batchSize) {
		if err := o.batch(ctx, batch); err != nil {
			return o.named(err)
		}
	}
	return o.absent()
}

// named adds the name of this package to an error of the vault.
func (o *opener) named(err error) error {
	if _, ok := errors.AsType[*FieldError](err); ok {
		return err
	}
	return fmt.Errorf("vaultsql: open: %w", err)
}

// absent marks the fields of missing tokens, and returns an error that names them.
func (o *opener) absent() error {
	var all []error
	for _, id := range o.missing {
		for _, f := range o.byID[id] {
			h := f.head()
			h.state, h.mask, h.field = gone, nil, f.path()
			all = append(all, f.wrap(errGone))
		}
	}
	return errors.Join(all...)
}

// kind returns the tag of the first field with a token.
func (o *opener) kind(id string) *tag { return o.byID[id][0].tag }

// batch opens the fields of up to 100 tokens.
func (o *opener) batch(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if slices.ContainsFunc(ids, func(id string) bool { return o.readers[o.kind(id)] }) {
		return o.apart(ctx, ids, false)
	}
	err := o.use(ctx, ids)
	bad, invalid := errors.AsType[*vault.InvalidError](err)
	switch {
	case err == nil:
		return nil
	case invalid:
		if rest := o.without(ids, byField(bad, len(ids))); len(rest) < len(ids) {
			return o.batch(ctx, rest)
		}
		return o.halves(ctx, ids, err) // the batch is too large
	case errors.Is(err, vault.ErrTooLarge):
		return o.halves(ctx, ids, err)
	case errors.Is(err, vault.ErrForbidden):
		o.denied = err
		return o.apart(ctx, ids, true)
	default:
		return err
	}
}

// halves opens a batch in two parts.
func (o *opener) halves(ctx context.Context, ids []string, err error) error {
	if len(ids) == 1 {
		return o.byID[ids[0]][0].wrap(err)
	}
	for half := range slices.Chunk(ids, (len(ids)+1)/2) {
		if err := o.batch(ctx, half); err != nil {
			return err
		}
	}
	return nil
}

// without leaves out the tokens that do not exist. Detokenize names them all; an
// error about something else, such as the size of the result, names none.
func (o *opener) without(ids []string, refused map[int]map[string][]string) []string {
	lost := map[string]bool{}
	for at, fields := range refused {
		id := ids[at]
		if slices.ContainsFunc(fields[""], func(message string) bool { return strings.Contains(message, id) }) {
			lost[id] = true
			o.missing = append(o.missing, id)
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return lost[id] })
}

// apart opens a batch kind by kind, because the caller may not use all of its
// tokens. Refused means that the vault has just refused the whole batch.
func (o *opener) apart(ctx context.Context, ids []string, refused bool) error {
	kinds := map[*tag][]string{}
	var order []*tag
	for _, id := range ids {
		k := o.kind(id)
		if kinds[k] == nil {
			order = append(order, k)
		}
		kinds[k] = append(kinds[k], id)
	}
	for _, k := range order {
		var err error
		switch {
		case len(order) == 1:
			o.readers[k] = true
			err = o.read(ctx, ids, refused)
		case o.readers[k]:
			err = o.read(ctx, kinds[k], false)
		default:
			err = o.batch(ctx, kinds[k])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// use reads tokens with the caller's right to use them.
func (o *opener) use(ctx context.Context, ids []string) error {
	document := make([]string, len(ids))
	for i, id := range ids {
		document[i] = "{{ token: " + id + " }}"
	}
	text, err := o.c.Detokenize(token.WithTransform(ctx), document)
	if err != nil {
		return err
	}
	var tokens []shown
	if err := text.Decode(&tokens); err != nil || len(tokens) != len(ids) {
		return errors.New("the vault did not return each token")
	}
	for i := range tokens {
		if err := o.deliver(&tokens[i]); err != nil {
			return err
		}
	}
	return nil
}

// read reads tokens with the caller's right to read them. Then it uses the tokens in
// containers where the caller may. Refused means that the vault has just refused the
// use of the whole batch.
func (o *opener) read(ctx context.Context, ids []string, refused bool) error {
	page, err := o.c.ListTokens(ctx, vault.ListTokensParams{IDs: ids, PageParams: vault.PageParams{Size: batchSize}})
	switch {
	case errors.Is(err, vault.ErrInvalid) && len(ids) > 1, errors.Is(err, vault.ErrTooLarge) && len(ids) > 1:
		return o.halves(ctx, ids, err)
	case errors.Is(err, vault.ErrForbidden):
		return o.byID[ids[0]][0].wrap(cmp.Or(o.denied, err))
	case err != nil:
		return o.byID[ids[0]][0].wrap(err)
	}
	sets := map[string][]string{}
	for i := range page.Data {
		if page.Data[i].Unreadable {
			return o.byID[page.Data[i].ID][0].wrap(errUnreadable)
		}
		t := shown{ID: page.Data[i].ID, Type: page.Data[i].Type, Data: page.Data[i].Data, Mask: page.Data[i].Mask, Transform: page.Data[i].Transform}
		if err := o.deliver(&t); err != nil {
			return err
		}
		set := strings.Join(page.Data[i].Containers, " ")
		sets[set] = append(sets[set], t.ID)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(page.Data, func(t vault.Token) bool { return t.ID == id }) {
			o.missing = append(o.missing, id)
		}
	}
	return o.useSets(ctx, sets, refused && len(page.Data) == len(ids))
}

// useSets uses tokens, one set of containers after the other. Refused means that the
// vault has just refused the use of all tokens.
func (o *opener) useSets(ctx context.Context, sets map[string][]string, refused bool) error {
	for set, ids := range sets {
		if refused && len(sets) == 1 {
			o.refused[set] = true
		}
		if o.refused[set] {
			continue
		}
		err := o.use(ctx, ids)
		if errors.Is(err, vault.ErrForbidden) {
			o.refused[set] = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// deliver passes a token on to its fields.
func (o *opener) deliver(t *shown) error {
	mask := func() string { return maskText(token.Masked(context.Background(), string(t.Type), t.Data, t.Mask)) }
	for _, f := range o.byID[t.ID] {
		h := f.head()
		if t.Transform != vault.TransformReveal {
			h.state, h.mask, h.field = masked, nil, f.path()
			if t.Data != nil {
				h.mask = boxed(maskText(t.Data))
			}
			continue
		}
		if err := f.open(t.Data, &box[string]{mask}); err != nil {
			return f.wrap(err)
		}
	}
	return nil
}
