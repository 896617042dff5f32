package jsonx_test

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/long"
)

// shapes are texts whose trees are large for their length. Each is an array of
// one piece, or a piece nested in itself.
var shapes = map[string]func(size int) string{
	"empty arrays":       arrayOf(`[]`),
	"empty objects":      arrayOf(`{}`),
	"digits":             arrayOf(`1`),
	"numbers":            arrayOf(`-12.50`),
	"empty strings":      arrayOf(`""`),
	"letters":            arrayOf(`"a"`),
	"short strings":      arrayOf(`"abcdef"`),
	"escapes":            arrayOf(`"\n\t"`),
	"booleans":           arrayOf(`true`),
	"arrays of one":      arrayOf(`[1]`),
	"arrays of two":      arrayOf(`[1,1]`),
	"arrays of three":    arrayOf(`[1,1,1]`),
	"arrays in arrays":   arrayOf(`[[[]]]`),
	"one member":         arrayOf(`{"a":1}`),
	"one empty name":     arrayOf(`{"":1}`),
	"two members":        arrayOf(`{"a":1,"b":2}`),
	"five members":       arrayOf(`{"a":1,"b":2,"c":3,"d":4,"e":5}`),
	"seventeen members":  arrayOf(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1}`),
	"objects in objects": arrayOf(strings.Repeat(`{"a":`, 190) + `1` + strings.Repeat(`}`, 190)),
	"arrays, deep":       arrayOf(strings.Repeat(`[`, 190) + strings.Repeat(`]`, 190)),
	"a large array last": func(size int) string { return `[1,` + arrayOf(`1`)(size-4) + `]` },
	"two large arrays":   func(size int) string { return `{"a":` + arrayOf(`1`)(size/2) + `,"b":` + arrayOf(`1`)(size/2) + `}` },
	"one large object":   largeObject,
}

func arrayOf(piece string) func(size int) string {
	return func(size int) string {
		n := size / (len(piece) + 1)
		return "[" + strings.TrimSuffix(strings.Repeat(piece+",", n), ",") + "]"
	}
}

func largeObject(size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	var b strings.Builder
	for i := 0; b.Len() < size-12; i++ {
		b.WriteString(`,"`)
		for n := i; ; n /= 64 {
			b.WriteByte(letters[n%64])
			if n < 64 {
				break
			}
		}
		b.WriteString(`":1`)
	}
	return "{" + b.String()[1:] + "}"
}

// TestTreesAreCompact measures the memory of trees of all shapes. It is at most
// 20 times the length of the text, including the text.
func TestTreesAreCompact(t *testing.T) {
	const most = 20
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		text := []byte(shapes[name](long.Rounds(1<<17, 1<<20)))
		before := heapBytes()
		v, err := jsonx.Parse(text, jsonx.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		times := float64(heapBytes()-before) / float64(len(text))
		t.Logf("%-20s %5.1f times its text", name, times)
		if times > most {
			t.Errorf("%s: the tree takes %.1f times its text", name, times)
		}
		runtime.KeepAlive(v)
		runtime.KeepAlive(text)
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // a pool keeps its content through one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
