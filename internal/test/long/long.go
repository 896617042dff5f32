// Package long tells tests how much to do. The short run checks every change
// and takes minutes. The long run ("./test.sh -long", build tag "long") adds
// the tests that need time or luck.
//
// Tests that run only in the long run are in files named *_long_test.go with
// the build constraint "long". A test that runs in both takes its number of
// rounds from [Rounds].
package long

// Rounds returns short in the short run and long in the long run.
func Rounds(short, long int) int {
	if Run {
		return long
	}
	return short
}
