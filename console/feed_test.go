package console_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestUpdatesAreComputedOnceForAllPages checks that the news of a round are computed
// once for all open pages. A page that does not read must not delay others. The
// source stops without pages.
func TestUpdatesAreComputedOnceForAllPages(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	h := console.Handler(v.Vault, &console.Options{Authorize: console.LocalOnly, Recorder: console.NewRecorder()})
	screens, round, leave := console.Join(h, 10)
	for range 3 {
		round()
		first := <-screens[0]
		for i, s := range screens[1:9] { // the tenth never reads
			if news := <-s; &news[0] != &first[0] {
				t.Errorf("the news of screen %d were made for it alone", i)
			}
		}
	}
	leave()
}
