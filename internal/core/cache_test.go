package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
)

// A value is used for a second from the start of its reading.
func TestValuesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := core.NewCache[string, int]()
		reading := c.Ask("a")
		<-time.After(core.MaxAge / 2)
		reading.Keep(1)
		if v, ok := c.Get("a"); !ok || v != 1 {
			t.Errorf("a value is not kept: %d, %v", v, ok)
		}
		c.Drop("a")
		if _, ok := c.Get("a"); !ok {
			t.Error("a value was dropped before its time")
		}
		<-time.After(core.MaxAge / 2)
		if _, ok := c.Get("a"); ok {
			t.Error("a value is used for longer than it may be")
		}
	})
}

// Values that were read before a revocation on this node are not used after
// it.
func TestRevocationClearsValues(t *testing.T) {
	t.Parallel()
	c := core.NewCache[string, int]()
	c.Ask("a").Keep(1)
	late := c.Ask("b")
	c.Clear()
	late.Keep(2)
	for _, key := range []string{"a", "b"} {
		if v, ok := c.Get(key); ok {
			t.Errorf("%s is still %d", key, v)
		}
	}
	c.Ask("a").Keep(3)
	if v, ok := c.Get("a"); !ok || v != 3 {
		t.Errorf("nothing is kept after a revocation: %d, %v", v, ok)
	}
}

// A stamp is fresh for as long as the cache would return the value.
func TestStamp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := core.NewCache[string, int]()
		reading := c.Ask("key")
		if !reading.Stamp.Fresh() || (core.Stamp{}).Fresh() {
			t.Error("a new stamp is not fresh, or a zero one is")
		}
		<-time.After(core.MaxAge)
		if reading.Stamp.Fresh() {
			t.Error("an old stamp is fresh")
		}
		reading = c.Ask("key")
		c.Clear()
		if reading.Stamp.Fresh() {
			t.Error("a stamp from before a revocation is fresh")
		}
	})
}
