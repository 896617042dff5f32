//go:build race

package vault_test

// raced is how many times longer the machine that tampers takes with the race
// detector.
const raced = 10
