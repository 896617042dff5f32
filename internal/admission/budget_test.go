package admission_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// spend takes steps one by one and returns how many it could take.
func spend(b *admission.Budget, most int) int {
	for n := range most {
		if !b.Spend(1) {
			return n
		}
	}
	return most
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget *admission.Budget
		want   int
	}{
		"a request":                 {admission.RequestBudget(t.Context(), 0, 0), 2_000_000},
		"a request of three tokens": {admission.RequestBudget(t.Context(), 3, 800), 2_000_000 + 3*500 + 100},
		"a mask":                    {admission.MaskBudget(t.Context(), 0), 20_000},
		"a mask over data":          {admission.MaskBudget(t.Context(), 8000), 21_000},
	} {
		must.Same(t, "steps of "+name, c.want, spend(c.budget, 3_000_000))
		if c.budget.Err() == nil || c.budget.Canceled() != nil || c.budget.Spend(0) || c.budget.Lasts() {
			t.Errorf("%s is used up, but Err is nil", name)
		}
	}
}

func TestTokensAreAdded(t *testing.T) {
	t.Parallel()
	b := admission.MaskBudget(t.Context(), 0)
	b.Spend(19_990)
	b.AddToken(80)
	must.Same(t, "steps that were left", 520, spend(b, 10_000))
	b.AddToken(8000)
	if b.Spend(1) {
		t.Error("a budget that was used up has steps again")
	}
}

func TestNilBudgetNeverEnds(t *testing.T) {
	t.Parallel()
	var b *admission.Budget
	b.AddToken(1)
	if !b.Spend(1<<40) || !b.Lasts() || b.Err() != nil || b.Canceled() != nil || b.Pay(admission.MaskBudget(t.Context(), 0)) != nil {
		t.Error("it ended")
	}
}

func TestContextEndsABudget(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := admission.RequestBudget(ctx, 0, 0)
	spend(b, 10_000)
	cancel()
	if n := spend(b, 100_000); n > 4096 {
		t.Errorf("%d steps were taken after the caller had left", n)
	}
	if !errors.Is(b.Err(), context.Canceled) || !errors.Is(b.Canceled(), context.Canceled) {
		t.Errorf("it ended with %v", b.Err())
	}
	if fresh := admission.RequestBudget(ctx, 0, 0); fresh.Lasts() {
		t.Error("Lasts did not notice the end of the context")
	}
}

func TestPaying(t *testing.T) {
	t.Parallel()
	request := admission.RequestBudget(t.Context(), 0, 0)
	mask := admission.MaskBudget(t.Context(), 0)
	mask.Spend(1000)
	if err := request.Pay(mask); err != nil || request.Used() != 1000 {
		t.Errorf("it paid %d: %v", request.Used(), err)
	}
	mask.Spend(1 << 30)
	if err := request.Pay(mask); err == nil || !errors.Is(err, mask.Err()) || request.Spend(0) || request.Canceled() != nil {
		t.Errorf("a mask over its budget: %v", err)
	}
	request = admission.RequestBudget(t.Context(), 0, 0)
	request.Spend(1_990_000)
	mask = admission.MaskBudget(t.Context(), 0)
	mask.Spend(15_000)
	if err := request.Pay(mask); err == nil || errors.Is(err, mask.Err()) {
		t.Errorf("a request whose budget a mask used up: %v", err)
	}
}
