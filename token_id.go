package vault

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Bounds on ids of tokens.
const (
	minID, maxID  = expr.MinTokenID, expr.MaxTokenID
	maxAliasTries = 10
	telling       = 8 // digits that an id does not share with a number by chance
)

// checkGivenID checks an id that the caller chose, or compiles its expression.
func (d *draft) checkGivenID(id string, bad *form.Problems) {
	switch {
	case id == "":
	case expr.HasExpression(id):
		t, err := expr.Compile(id)
		if err != nil {
			bad.AddErr("id", err)
		}
		d.idExpr = t
	default:
		d.fixedID = id
		if msg := d.idProblem(id); msg != "" {
			bad.Add("id", "%s", msg)
		}
	}
}

// idProblem says what is wrong with an id; "" when nothing is.
func (d *draft) idProblem(id string) string {
	n := utf8.RuneCountInString(id)
	switch {
	case n < minID || n > maxID:
		return fmt.Sprintf("must have %d to %d characters", minID, maxID)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return "must be valid Unicode text without control characters"
	case strings.ContainsAny(id, expr.NotInTokenID):
		return "must not contain any of # / \\ + ? [ ] | & = % < > { } ^ : or quotes"
	case strings.TrimSpace(id) != id:
		return "must not start or end with a space"
	case id == "search":
		return "is a reserved word"
	case d.body.revealedBy(id):
		return "must not hold the token's own data: ids stand in URLs and logs"
	}
	return ""
}

// revealedBy reports whether an id gives the data away: it is the whole of it,
// or holds its card or account number, with or without separators.
func (b *tokenBody) revealedBy(id string) bool {
	if id == stringOf(b.data) {
		return true
	}
	secret := b.spec.secret
	if secret == nil {
		return false
	}
	number := secret(b.data)
	if number == "" {
		return false
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, id)
	return strings.Contains(id, number) || len(number) >= telling && strings.Contains(digits, number)
}

// name gives a draft its id and its place in lists. Inside Once a write is held
// back, so whether an id is taken has to be asked beforehand. That of another
// draft of the same document is taken always.
func (op *call) name(ctx context.Context, d *draft, others map[string]bool) error {
	for {
		err := op.draw(d)
		if err != nil || d.fixedID == "" && d.idExpr == nil {
			return err
		}
		free := !others[d.row.ID]
		if free && op.held != nil {
			free, err = op.isFree(ctx, d.row.ID)
		}
		switch {
		case err != nil || free:
			return err
		case d.fixedID != "":
			return errTokenExists
		}
	}
}

// draw names a draft, each time anew unless the name is given.
func (op *call) draw(d *draft) error {
	ord := op.v.idAt(op.now)
	d.row.Ord = storage.ID(ord)
	switch {
	case d.fixedID != "":
		d.row.ID = d.fixedID
		return nil
	case d.idExpr == nil || d.tries >= maxAliasTries:
		d.row.ID = ord.String()
		return nil
	}
	return op.alias(d, ord)
}

// alias evaluates an id expression. An alias is random, so one that happens to
// give the data away is drawn again; one that always does is refused.
func (op *call) alias(d *draft, ord uuid.UUID) error {
	var problem string
	for ; d.tries < maxAliasTries; d.tries++ {
		v, err := d.idExpr.Eval(d.body.env(jsonx.Value{}))
		if err == nil && v.IsNull() {
			err = errNoValue
		}
		if err != nil {
			return underPath("id", invalidErr(err))
		}
		id := stringOf(v)
		if problem = d.idProblem(id); problem == "" {
			d.row.ID = id
			d.tries++
			return nil
		}
	}
	if problem != "" {
		return invalid("id", "%s", problem)
	}
	d.row.ID = ord.String()
	return nil
}

// isFree reports whether no token has an id. One that has expired makes room.
func (op *call) isFree(ctx context.Context, id string) (bool, error) {
	rows, err := op.v.store.Tokens(ctx, op.tenantID(), []string{id})
	if err != nil || len(rows) == 0 {
		return err == nil, err
	}
	if !expiredRow(&rows[0], op.now) {
		return false, nil
	}
	return true, op.v.expireTokens(ctx, rows)
}
