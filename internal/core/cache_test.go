package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
)

func sizeOfInt(int) int { return 1 }

// Whatever values are kept, the cache holds at most 64 MiB and the newest value.
func TestMemoryOfACacheIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, each = 64 << 20, 1 << 20
		c := core.NewCache[int](func(size int) int { return size })
		for i := range 500 {
			size := 1 + i*7919%each
			c.Ask(i % 300).Keep(size)
			if held := c.Held(); held < size || held > most {
				t.Fatalf("after %d values the cache holds %d bytes", i+1, held)
			}
			if v, ok := c.Get(i % 300); !ok || v != size {
				t.Fatalf("the newest value is %d, %v", v, ok)
			}
			if i%50 == 0 {
				<-time.After(core.MaxAge / 2)
			}
		}
		c.Clear()
		if held := c.Held(); held != 0 {
			t.Errorf("an empty cache holds %d bytes", held)
		}
		for i := range 64 {
			c.Ask(i).Keep(each)
		}
		<-time.After(core.MaxAge)
		c.Ask(-1).Keep(each)
		if held := c.Held(); held != each {
			t.Errorf("values that are too old were kept: %d bytes", held)
		}
	})
}

// A value is used for a second from the start of its reading.
func TestValuesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := core.NewCache[string](sizeOfInt)
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
	c := core.NewCache[string](sizeOfInt)
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
		c := core.NewCache[string](sizeOfInt)
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
