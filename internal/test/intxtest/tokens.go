package intxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// inTxTokens are calls about tokens, in an order in which each finds the data that
// it needs. At first there are two tokens.
var inTxTokens = []inTxCase{
	{"GetToken", func(ctx context.Context, f *inTxFixture) error { _, err := f.private.GetToken(ctx, "card"); return err }},
	{"PatchToken", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.private.PatchToken(ctx, "card", vault.JSON(`{"metadata":{"order":"8"}}`))
		return err
	}},
	{"ListTokens", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Token](2)(f.private.ListTokens(ctx, vault.ListTokensParams{}))
	}},
	{"AllTokens", func(ctx context.Context, f *inTxFixture) error {
		return count(2, f.private.AllTokens(ctx, vault.ListTokensParams{}))
	}},
	{"ListTokensAfter", func(ctx context.Context, f *inTxFixture) error {
		p := vault.ListTokensParams{PageParams: vault.PageParams{Size: 1}}
		first, err := f.private.ListTokensAfter(ctx, p, "")
		if err != nil {
			return err
		}
		next, err := f.private.ListTokensAfter(ctx, p, first.Pagination.After)
		if err != nil || len(next.Data) != 1 || next.Data[0].ID != "card" {
			return fmt.Errorf("the second page does not have the card: %w", err)
		}
		return nil
	}},
	{"SearchTokens", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Token](1)(f.private.SearchTokens(ctx, vault.SearchTokensParams{Query: "metadata.order:8 AND container:/new/"}))
	}},
	{"ListTokensAfter", func(ctx context.Context, f *inTxFixture) error {
		page, err := f.private.ListTokensAfter(ctx, vault.SearchTokensParams{Query: "type:card_number"}, "")
		if err != nil {
			return err
		}
		return number(2, len(page.Data))
	}},
	{"AllTokens", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.private.AllTokens(ctx, vault.SearchTokensParams{Query: "metadata.order:8"}))
	}},
	{"Detokenize", func(ctx context.Context, f *inTxFixture) error {
		doc, err := f.owner.Detokenize(ctx, "{{ card }}")
		if err == nil && string(doc) != `"`+visa+`"` {
			err = errors.New("it is another document")
		}
		return err
	}},
	{"Tokenize", func(ctx context.Context, f *inTxFixture) error { _, err := f.private.Tokenize(ctx, "x"); return err }},
	{"CreateToken", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.private.CreateToken(ctx, aCard("third"))
		return err
	}},
	{"InTx", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.InTx(f.tx).GetToken(ctx, "card")
		return err
	}},
	{"AsUser", func(ctx context.Context, f *inTxFixture) error {
		if err := f.private.AsUser("jane@example.com").DeleteToken(ctx, "other"); err != nil {
			return err
		}
		page, err := f.owner.ListLogs(ctx, vault.ListLogsParams{EntityID: "other", Operation: vault.OperationDelete})
		if err == nil && (len(page.Data) != 1 || page.Data[0].ActorName != "jane@example.com") {
			err = errors.New("the entry does not name the user")
		}
		return err
	}},
	{"EraseTokens", func(ctx context.Context, f *inTxFixture) error {
		for _, id := range []string{"by-id", "by-query"} {
			if _, err := f.private.CreateToken(ctx, aCard(id)); err != nil {
				return err
			}
		}
		done, err := f.private.EraseTokens(ctx, vault.EraseParams{IDs: []string{"by-id", "nobody"}, Reason: "case 7"})
		if err != nil {
			return err
		}
		all, err := f.owner.EraseTokens(ctx, vault.EraseParams{Query: "id:by-query", Reason: "case 7"})
		if err != nil {
			return err
		}
		return is([4]int{1, 0, 1, 0}, [4]int{done.Count, done.Left, all.Count, all.Left})
	}},
	{"DeleteToken", func(ctx context.Context, f *inTxFixture) error { return f.private.DeleteToken(ctx, "third") }},
}

// inTxIdentities are calls about keys, applications and sessions.
var inTxIdentities = []inTxCase{
	{"HasPermission", func(ctx context.Context, f *inTxFixture) error { return f.private.HasPermission(ctx, "token:read") }},
	{"As", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.As(ctx, f.app.ID); return err }},
	{"ListPermissions", func(ctx context.Context, f *inTxFixture) error { _, err := f.private.ListPermissions(ctx); return err }},
	{"Explain", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.Explain(ctx, vault.ExplainParams{ApplicationID: f.app.ID, Permission: "token:read", TokenID: "card"})
		return err
	}},
	{"OwnApplication", func(ctx context.Context, f *inTxFixture) error {
		app, err := f.private.OwnApplication(ctx)
		if err != nil {
			return err
		}
		return is(f.app.ID, app.ID)
	}},
	{"GetApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.GetApplication(ctx, f.app.ID)
		return err
	}},
	{"ListApplications", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Application](1)(f.owner.ListApplications(ctx, vault.ListApplicationsParams{Name: "App"}))
	}},
	{"AllApplications", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllApplications(ctx, vault.ListApplicationsParams{Name: "App"}))
	}},
	{"ApplyApplication", func(ctx context.Context, f *inTxFixture) error {
		return appliedOnce(func(name string) (*vault.Applied[vault.Application], error) {
			return f.owner.ApplyApplication(ctx, anApplication(name))
		}, func() error {
			p := anApplication("Applied")
			p.ExpiresAt = time.Now().Add(48 * time.Hour)
			got, err := f.owner.ApplyApplication(ctx, p)
			if err != nil {
				return err
			}
			return is(true, got.Changed)
		})
	}},
	{"EnsureApplication", func(ctx context.Context, f *inTxFixture) error {
		return ensured(f.app, "App", func(x *vault.Application) uuid.UUID { return x.ID }, func(name string) (*vault.Application, error) {
			return f.owner.EnsureApplication(ctx, anApplication(name))
		})
	}},
	{"ReplaceApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceApplication(ctx, f.spare.ID, anApplication("Replaced"))
		return err
	}},
	{"PatchApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchApplication(ctx, f.spare.ID, vault.JSON(`{"name":"Patched"}`))
		return err
	}},
	{"RegenerateKey", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.RegenerateKey(ctx, f.spare.ID)
		return err
	}},
	{"CreateApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.CreateApplication(ctx, anApplication("Another"))
		return err
	}},
	{"DeleteApplication", func(ctx context.Context, f *inTxFixture) error { return f.owner.DeleteApplication(ctx, f.spare.ID) }},
	{"CreateSession", func(ctx context.Context, f *inTxFixture) error { _, err := f.public.CreateSession(ctx); return err }},
	{"AuthorizeSession", func(ctx context.Context, f *inTxFixture) error {
		return f.private.AuthorizeSession(ctx, vault.SessionGrant{Nonce: f.session.Nonce, Permissions: []vault.Permission{"token:create"}})
	}},
	{"ListSessions", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.SessionInfo](3)(f.owner.ListSessions(ctx, vault.PageParams{}))
	}},
	{"AllSessions", func(ctx context.Context, f *inTxFixture) error {
		return count(3, f.owner.AllSessions(ctx))
	}},
	{"DeleteSession", func(ctx context.Context, f *inTxFixture) error {
		page, err := f.owner.ListSessions(ctx, vault.PageParams{})
		if err != nil {
			return err
		}
		return f.owner.DeleteSession(ctx, page.Data[0].ID)
	}},
}

// appliedOnce creates an entity, applies it again, and then changes it.
func appliedOnce[T any](apply func(name string) (*vault.Applied[T], error), change func() error) error {
	made, errMade := apply("Applied")
	again, errAgain := apply("Applied")
	if err := errors.Join(errMade, errAgain); err != nil {
		return err
	}
	return errors.Join(is(true, made.Created), is(false, again.Created || again.Changed), change())
}

// ensured finds an existing entity by its name, and creates a missing entity once.
func ensured[T any](there *T, name string, id func(*T) uuid.UUID, ensure func(name string) (*T, error)) error {
	found, err := ensure(name)
	made, errMade := ensure("Ensured")
	again, errAgain := ensure("Ensured")
	if err := errors.Join(err, errMade, errAgain); err != nil {
		return err
	}
	return errors.Join(is(id(there), id(found)), is(id(made), id(again)))
}
