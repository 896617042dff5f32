//go:build !race

package vault_test

const raced = 1
