package cli

import (
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/evidence"
)

func TestVerdictsHaveExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want int
	}{{errTampered, exitTampered}, {(&call{}).verdict(nil, evidence.ErrCannotTell), exitUnsure}, {errors.New("other"), exitFailed}} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("%v: exit %d, want %d", tc.err, got, tc.want)
		}
	}
}
