package vault

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/storage"
)

// ErrWithdrawn means that the answer which an idempotency key keeps is not given
// any more: a token that the run used is gone, or the cvc that it saw. The run
// is not repeated. It matches ErrConflict.
var ErrWithdrawn = errorf(ErrConflict, "The stored answer was withdrawn.")

// maxTokenUses is how many tokens a stored answer can depend on. One of a run
// that used more is withdrawn at once.
const maxTokenUses = 1000

// tokenUse is a token that a run of code used, as whom, and what it saw of it.
// The answer of the run may hold its data, so it is given again only while that
// identity may still see as much, and the data still exists.
type tokenUse struct {
	// As is the application of the client instance; zero for the caller.
	As         uuid.UUID        `json:"as,omitzero"`
	Permission string           `json:"permission"`
	ID         string           `json:"id"`
	Ord        uuid.UUID        `json:"ord"` // tells it from a later token with the same id
	Shown      access.Transform `json:"shown"`
	// CVCEnds is when the cvc ends that the run saw; zero when it saw none.
	CVCEnds time.Time `json:"cvc_ends,omitzero"`
}

// tokenUses collects what a run uses, and the runs that it starts. It is safe
// for concurrent use.
type tokenUses struct {
	mu   sync.Mutex
	uses []tokenUse
	over bool // there were more than can be kept
}

// add notes that an operation shows tokens with a transform.
func (u *tokenUses) add(op *operation, permission string, t *clearToken, shown access.Transform) {
	use := tokenUse{Permission: permission, ID: t.row.ID, Ord: uuid.UUID(t.row.Ord), Shown: shown}
	if op.scripted {
		use.As = op.ApplicationID()
	}
	if shown == access.Reveal && t.CVC != "" {
		use.CVCEnds = t.row.CVCExpiresAt
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case slices.Contains(u.uses, use):
	case len(u.uses) >= maxTokenUses:
		u.over = true
	default:
		u.uses = append(u.uses, use)
	}
}

// noteUse notes a token that is about to be shown, if it is for a run whose
// answer will be kept.
func (op *operation) noteUse(ctx context.Context, permission string, t *clearToken, shown access.Transform) {
	if !op.scripted && op.pending == nil {
		return
	}
	if uses := lineageOf(ctx).uses; uses != nil {
		uses.add(op, permission, t, shown)
	}
}

// keptAnswer is an answer as it is sealed: with what it depends on.
type keptAnswer struct {
	Answer
	uses []tokenUse
	over bool
}

// dependencies is the part of a kept answer before the answer itself.
type dependencies struct {
	Uses []tokenUse `json:"uses"`
	Over bool       `json:"over,omitempty"`
}

// encode writes the dependencies after their length, which is zero when there
// are none, and then the answer.
func (k *keptAnswer) encode() ([]byte, error) {
	if len(k.uses) == 0 && !k.over {
		return append([]byte{0}, k.Answer.encode()...), nil
	}
	text, err := json.Marshal(dependencies{k.uses, k.over})
	if err != nil {
		return nil, err
	}
	out := append(binary.AppendUvarint(nil, uint64(len(text))), text...)
	return append(out, k.Answer.encode()...), nil
}

// decode reads what encode wrote.
func (k *keptAnswer) decode(src []byte) error {
	n, width := binary.Uvarint(src)
	if width <= 0 || n > uint64(len(src)-width) {
		return errAnswer
	}
	text, rest := src[width:width+int(n)], src[width+int(n):]
	if n > 0 {
		var d dependencies
		if err := json.Unmarshal(text, &d); err != nil {
			return errAnswer
		}
		k.uses, k.over = d.Uses, d.Over
	}
	return k.Answer.decode(rest)
}

// replay asks whether a kept answer may be given again: those who used its
// tokens must still be allowed to see as much of them, else it is ErrForbidden,
// and the data must exist, else it is ErrWithdrawn. Each replay is a use of the
// tokens, and entered in the log.
func (op *operation) replay(ctx context.Context, k *keptAnswer) error {
	if k.over {
		return ErrWithdrawn
	}
	if len(k.uses) == 0 {
		return nil
	}
	rows, err := op.rowsOf(ctx, k.uses)
	if err != nil {
		return err
	}
	withdrawn := false
	var seen []entity
	for _, use := range k.uses {
		row := rows[use.Ord]
		if row == nil || expiredRow(row, op.now) {
			withdrawn = true
			continue
		}
		if err := op.maySeeAgain(ctx, &use, row); err != nil {
			return err
		}
		if !use.CVCEnds.IsZero() && (row.CVC == nil || !row.CVCExpiresAt.Equal(use.CVCEnds) || !row.CVCExpiresAt.After(op.now)) {
			withdrawn = true
		}
		if e := (entity{row.Type, row.ID}); !slices.Contains(seen, e) {
			seen = append(seen, e)
		}
	}
	if withdrawn {
		return ErrWithdrawn
	}
	return op.logReads(ctx, opUse, seen...)
}

// rowsOf reads the rows of tokens that were used, without opening them.
func (op *operation) rowsOf(ctx context.Context, uses []tokenUse) (map[uuid.UUID]*storage.Token, error) {
	var ids []string
	for i := range uses {
		if !slices.Contains(ids, uses[i].ID) {
			ids = append(ids, uses[i].ID)
		}
	}
	rows := map[uuid.UUID]*storage.Token{}
	for piece := range slices.Chunk(ids, detokenizedAtOnce) {
		some, err := op.rows(ctx, piece)
		if err != nil {
			return nil, err
		}
		for i := range some {
			some[i].Body = nil // only its columns are needed
			rows[uuid.UUID(some[i].Ord)] = &some[i]
		}
	}
	return rows, nil
}

// maySeeAgain asks whether the one that used a token may still see as much.
func (op *operation) maySeeAgain(ctx context.Context, use *tokenUse, row *storage.Token) error {
	grant := op.grant
	if use.As != (uuid.UUID{}) {
		id, err := op.follow(ctx, use.As)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthenticated) {
			return errorf(ErrForbidden, "The application that the stored answer depends on no longer exists.")
		}
		if err != nil {
			return err
		}
		grant = id.client.grant
	}
	if shown, ok := grant.Decide(use.Permission, row.ID, row.Containers); !ok || shown < use.Shown {
		return errForbiddenToken(use.Permission)
	}
	return nil
}
