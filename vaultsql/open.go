package vaultsql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault"
)

// Open gets the values of the fields of dst from the vault: pointers to structs, or
// slices of structs. Values that are in memory already are left alone.
//
// A caller with the right to use the tokens gets the values (permission
// token:use). Another one gets what it may read (permission token:read): values
// where a rule reveals them, and masks otherwise; [Of.Get] is then [ErrMasked]. A
// value that cannot be told from its mask counts as a mask.
//
// Open asks for 100 distinct tokens at a time, whatever rows they are in. A field
// whose token has expired or was deleted is absent. When there are such fields,
// Open opens all others and returns an error that has a [FieldError] for each; it
// matches [vault.ErrNotFound]. After another error, some fields may be open.
func Open(ctx context.Context, c vault.API, dst ...any) error {
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

// batchSize is how many tokens a call can name.
const batchSize = 100

// opener opens fields in as few calls as possible.
type opener struct {
	c       vault.API
	fields  []*field
	byID    map[string][]*field
	ids     map[*tag][]string // by the kind of field, whose tokens have the same containers as a rule
	kinds   []*tag
	refused map[string]bool // sets of containers whose tokens may not be used
	readers map[*tag]bool   // kinds of fields of which some tokens may not be used
	reveals *bool           // whether every use reveals; nil until it is asked
	missing []string
}

func newOpener(c vault.API) *opener {
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
			if !canBeID(id) {
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

// named returns an error of the vault as one of this package.
func (o *opener) named(err error) error {
	if _, ok := errors.AsType[*FieldError](err); ok {
		return err
	}
	return fmt.Errorf("vaultsql: open: %w", err)
}

// absent notes which tokens do not exist, and names their fields.
func (o *opener) absent() error {
	var all []error
	for _, id := range o.missing {
		for _, f := range o.byID[id] {
			f.head().state, f.head().mask = gone, nil
			all = append(all, f.wrap(errGone))
		}
	}
	return errors.Join(all...)
}

// kind returns the kind of the first field of a token.
func (o *opener) kind(id string) *tag { return o.byID[id][0].tag }

// batch opens the fields of some tokens.
func (o *opener) batch(ctx context.Context, ids []string) error {
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
			return o.again(ctx, rest)
		}
		return o.halves(ctx, ids, err) // too much at once
	case errors.Is(err, vault.ErrTooLarge):
		return o.halves(ctx, ids, err)
	case errors.Is(err, vault.ErrForbidden):
		return o.apart(ctx, ids, true)
	default:
		return err
	}
}

// again opens what is left of a batch.
func (o *opener) again(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return o.batch(ctx, ids)
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
func (o *opener) without(ids []string, refused []elementError) []string {
	lost := map[string]bool{}
	for _, r := range refused {
		id := ids[r.at]
		if slices.ContainsFunc(r.fields[""], func(message string) bool { return strings.Contains(message, id) }) {
			lost[id] = true
			o.missing = append(o.missing, id)
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return lost[id] })
}

// apart opens a batch whose tokens the caller may not all use: kind by kind, since
// tokens of one kind have the same containers as a rule. Refused means that the
// vault has just refused the whole batch.
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

// use asks for tokens as the caller may use them.
func (o *opener) use(ctx context.Context, ids []string) error {
	document := make([]string, len(ids))
	for i, id := range ids {
		document[i] = "{{ token: " + id + " }}"
	}
	text, err := o.c.Detokenize(ctx, document)
	if err != nil {
		return err
	}
	var tokens []shown
	if err := text.Decode(&tokens); err != nil || len(tokens) != len(ids) {
		return errors.New("the vault did not return each token")
	}
	for i := range tokens {
		t := &tokens[i]
		reveals := t.isPlain()
		if !reveals && t.Data != nil {
			if reveals, err = o.revealsAlways(ctx); err != nil {
				return err
			}
		}
		if err := o.settle(t, reveals); err != nil {
			return err
		}
	}
	return nil
}

// revealsAlways reports whether the caller, which has just used tokens, sees
// whatever it may use. It is asked for values that look like masks.
func (o *opener) revealsAlways(ctx context.Context) (bool, error) {
	if o.reveals != nil {
		return *o.reveals, nil
	}
	reveals := true // the tenant itself has no application, and every right
	app, err := o.c.OwnApplication(ctx)
	switch {
	case errors.Is(err, vault.ErrNotFound):
	case err != nil:
		return false, err
	default:
		reveals = revealsByUse(app)
	}
	o.reveals = &reveals
	return reveals, nil
}

// revealsByUse reports whether an application sees whatever it may use. A public
// one may use no tokens: the caller is one of its sessions, with rights of its own.
func revealsByUse(app *vault.Application) bool {
	return app.Type != vault.ApplicationPublic && !slices.ContainsFunc(app.Rules, func(r vault.AccessRule) bool {
		return r.Transform != vault.TransformReveal && slices.Contains(r.Permissions, vault.PermissionTokenUse)
	})
}

// read lists tokens as the caller may read them, and then uses the tokens in
// containers where the caller may. Refused means that the vault has just refused to
// let it use all of them.
func (o *opener) read(ctx context.Context, ids []string, refused bool) error {
	page, err := o.c.ListTokens(ctx, vault.ListTokensParams{IDs: ids, PageParams: vault.PageParams{Size: batchSize}})
	switch {
	case errors.Is(err, vault.ErrInvalid) && len(ids) > 1, errors.Is(err, vault.ErrTooLarge) && len(ids) > 1:
		return o.halves(ctx, ids, err)
	case err != nil:
		return o.byID[ids[0]][0].wrap(err)
	}
	sets := map[string][]string{}
	for i := range page.Data {
		t := shown{ID: page.Data[i].ID, Type: page.Data[i].Type, Data: page.Data[i].Data, Mask: page.Data[i].Mask}
		if err := o.settle(&t, t.isPlain()); err != nil {
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

// useSets uses tokens by sets of containers. If there is one set and it was refused
// already, its tokens are not asked for again.
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

// settle gives a token to its fields.
func (o *opener) settle(t *shown, reveals bool) error {
	for _, f := range o.byID[t.ID] {
		h := f.head()
		if !reveals {
			h.state, h.mask = masked, nil
			if t.Data != nil {
				h.mask = boxed(maskText(t.Data))
			}
			continue
		}
		if err := f.open(t.Data, &box[string]{t.masked}); err != nil {
			return f.wrap(err)
		}
	}
	return nil
}

// Bounds on the ids of tokens, and what they must not hold.
const (
	minID, maxID  = 3, 400
	forbiddenInID = "#/\\+?[]|&=%<>{}^:'\"`"
)

// canBeID reports whether a token can have this id, so that what is in a column by
// mistake is not taken for an expression.
func canBeID(id string) bool {
	n := utf8.RuneCountInString(id)
	return n >= minID && n <= maxID && utf8.ValidString(id) && strings.TrimSpace(id) == id &&
		!strings.ContainsAny(id, forbiddenInID) && !strings.ContainsFunc(id, unicode.IsControl)
}
