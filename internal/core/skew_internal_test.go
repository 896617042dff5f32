package core

import (
	"strings"
	"testing"
	"time"
)

func TestSkewErrorNamesTheDirection(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{
		time.Hour:  "is 1h0m0s ahead of the database's",
		-time.Hour: "is 1h0m0s behind the database's",
		MaxSkew:    "",
	} {
		var s Skew
		s.ahead.Store(int64(ahead))
		err := s.Err()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: got %v, want %q", ahead, err, want)
		}
	}
}
