// Package long tells tests how much to do. The short run protects every change
// and takes minutes; the long run ("./test.sh -long", the build tag "long") adds
// what needs time or luck.
//
// A test that belongs to the long run alone is in a file named *_long_test.go
// with the build constraint "long". A test of both runs takes its number of
// rounds from [Rounds].
package long

// Rounds returns short in the short run and long in the long run.
func Rounds(short, long int) int {
	if Run {
		return long
	}
	return short
}
