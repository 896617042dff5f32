package vault_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
)

// deadJob has the callback of a run fail until it is given up.
func deadJob(t *testing.T, w *reactWorld, hook *receiver) vault.JobInfo {
	t.Helper()
	return deadJobOf(t, w, hook, nil)
}

func deadJobOf(t *testing.T, w *reactWorld, hook *receiver, args any) vault.JobInfo {
	t.Helper()
	hook.answer(http.StatusInternalServerError)
	if _, err := w.Private.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{CallbackURL: hook.URL, Args: args}); err != nil {
		t.Fatal(err)
	}
	for range 11 { // one more than there are tries, for a result that is withdrawn
		if err := w.Work(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(2 * time.Hour)
	}
	jobs, err := w.Owner.ListJobs(t.Context(), vault.ListJobsParams{Dead: true})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("dead jobs: %v, %v", jobs, err)
	}
	return jobs[0]
}

func failing(context.Context, map[string]any, script.Host) (any, error) {
	return nil, &script.Error{Kind: script.Thrown, Status: 402, Title: "x", Messages: map[string][]string{"error": {"4242424242424242"}}, Frames: []script.Frame{{Line: 7}, {Line: 9}}}
}

func TestADeadJobIsRetried(t *testing.T) {
	t.Parallel()
	w, hook := newReactWorld(t, failing), newReceiver(t)
	began := w.Clock.Now()
	dead := deadJob(t, w, hook)
	same(t, "state", dead.State, vault.JobDead)
	same(t, "step", dead.Step, "deliver")
	same(t, "reactor", dead.ReactorID, w.reactor.ID)
	same(t, "status and line", [2]int{dead.Ran.Status, dead.Ran.Line}, [2]int{402, 7})
	if dead.Ran.Took <= 0 || dead.CreatedAt.Sub(began).Abs() > time.Millisecond {
		t.Errorf("took %s, created at %s, want a time and %s", dead.Ran.Took, dead.CreatedAt, began)
	}
	hook.answer(http.StatusOK)
	before := hook.count()
	user := w.Owner.AsUser("ops@example.com")
	if err := user.RetryJob(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	wantError(t, "retry again", user.RetryJob(t.Context(), dead.ID), vault.ErrNotFound)
	living, err := w.Owner.ListJobs(t.Context(), vault.ListJobsParams{})
	if err != nil || len(living) != 1 || living[0].State != vault.JobWaiting || living[0].Attempts != 0 {
		t.Errorf("jobs: %+v, %v", living, err)
	}
	if err := w.Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "callbacks", hook.count()-before, 1)
	logs, err := w.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "reactor"})
	if err != nil || logs.Data[0].Message != "Reactor callback retried" || logs.Data[0].ActorName != "ops@example.com" {
		t.Errorf("newest entry: %+v, %v", logs.Data[0], err)
	}
}

func TestADeadJobIsDiscarded(t *testing.T) {
	t.Parallel()
	w, hook := newReactWorld(t, failing), newReceiver(t)
	dead := deadJob(t, w, hook)
	for method, err := range map[string]error{
		"RetryJob": w.Management.RetryJob(t.Context(), dead.ID), "DiscardJob": w.Private.DiscardJob(t.Context(), dead.ID),
	} {
		wantError(t, method, err, vault.ErrForbidden)
	}
	_, err := w.Management.ListJobs(t.Context(), vault.ListJobsParams{})
	wantError(t, "ListJobs", err, vault.ErrForbidden)
	other, err := w.CreateTenant(t.Context(), "Other")
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "another tenant's", w.Vault.Tenant(other.ID).RetryJob(t.Context(), dead.ID), vault.ErrNotFound)
	if err := w.Owner.DiscardJob(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uuid.UUID{dead.ID, uuid.New(), {}} {
		wantError(t, "discard", w.Owner.DiscardJob(t.Context(), id), vault.ErrNotFound)
		wantError(t, "retry", w.Owner.RetryJob(t.Context(), id), vault.ErrNotFound)
	}
	jobs, err := w.Owner.ListJobs(t.Context(), vault.ListJobsParams{Dead: true})
	if err != nil || len(jobs) != 0 {
		t.Errorf("jobs: %v, %v", jobs, err)
	}
}

// What is done to a job inside of Once is part of its commit.
func TestADeadJobIsChangedOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(context.Context, *vault.Client, uuid.UUID) error{
		"discard": func(ctx context.Context, c *vault.Client, id uuid.UUID) error { return c.DiscardJob(ctx, id) },
		"retry":   func(ctx context.Context, c *vault.Client, id uuid.UUID) error { return c.RetryJob(ctx, id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, hook := newReactWorld(t, failing), newReceiver(t)
			dead := deadJob(t, w, hook)
			_, _, err := w.Owner.Once(t.Context(), vault.OnceKey{Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.Answer, error) {
				if _, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}); err != nil {
					return vault.Answer{}, err
				}
				return vault.Answer{Status: http.StatusNoContent}, change(ctx, c, dead.ID)
			})
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := w.Owner.ListJobs(t.Context(), vault.ListJobsParams{Dead: true})
			if err != nil || len(jobs) != 0 {
				t.Errorf("dead jobs: %v, %v", jobs, err)
			}
		})
	}
}

// TestRetriedResultOfOneWhoIsGone finds that a retry has no more rights than its
// caller: what is sent is that the caller is gone.
func TestRetriedResultOfOneWhoIsGone(t *testing.T) {
	t.Parallel()
	w, hook := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) {
		return map[string]any{"raw": "secret"}, nil
	}), newReceiver(t)
	dead := deadJob(t, w, hook)
	if err := w.Owner.DeleteApplication(t.Context(), w.Private.ApplicationID()); err != nil {
		t.Fatal(err)
	}
	hook.answer(http.StatusOK)
	if err := w.Owner.RetryJob(t.Context(), dead.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Work(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := string(hook.bodies[len(hook.bodies)-1])
	if !strings.Contains(last, "401") || strings.Contains(last, "secret") {
		t.Errorf("sent %s", last)
	}
}

// TestRetriedResultOfWhatIsGone finds that a result is not sent again when a token
// or a cvc that it was made of is gone.
func TestRetriedResultOfWhatIsGone(t *testing.T) {
	t.Parallel()
	echo := func(_ context.Context, args map[string]any, _ script.Host) (any, error) {
		return map[string]any{"raw": args}, nil
	}
	for name, card := range map[string]vault.TokenParams{
		"a token": {ID: "used", Type: vault.TypeCardNumber, Data: visa},
		"a cvc":   {ID: "used", Type: vault.TypeCard, Data: vault.CardData{Number: visa, ExpirationMonth: 12, ExpirationYear: 2040, CVC: "987"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, hook := newReactWorld(t, echo), newReceiver(t)
			if _, err := w.Private.CreateToken(t.Context(), card); err != nil {
				t.Fatal(err)
			}
			dead := deadJobOf(t, w, hook, map[string]any{"card": "{{ used }}"})
			if name == "a token" {
				if err := w.Private.DeleteToken(t.Context(), "used"); err != nil {
					t.Fatal(err)
				}
			}
			hook.answer(http.StatusOK)
			if err := w.Owner.RetryJob(t.Context(), dead.ID); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := w.Work(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			last := string(hook.bodies[len(hook.bodies)-1])
			if !strings.Contains(last, "409") || strings.Contains(last, visa) {
				t.Errorf("sent %s", last)
			}
		})
	}
}
