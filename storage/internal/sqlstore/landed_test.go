package sqlstore_test

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// TestLandedMigrations compares each migration with the start of its hash. A
// migration that databases have run must not change. Comments and white space
// may, and are not part of the hash.
func TestLandedMigrations(t *testing.T) {
	t.Parallel()
	comments := regexp.MustCompile(`--.*`)
	for _, test := range []struct {
		all  []storage.Migration
		want []string
	}{
		{sqlite.Migrations(), []string{
			"4ce18b798bf620d5", "eb4b925e830f0544", "5b2aa19c1d3c537e",
			"d272c1ff65ef0e5a", "80c87456dbaac62b", "04a047386fee99f4",
			"ad543344bb411b64",
		}},
		{postgres.Migrations(""), []string{
			"27da3a33b0240e56", "3c222bf509bbb1a3", "4e3d6e5af5de88fb",
			"1859fdcade350684", "dead7eab6b2bd178", "8a37834a5a809263",
			"ad543344bb411b64", "2cd5678d93d912cc",
		}},
	} {
		var got []string
		for _, m := range test.all {
			text := strings.Join(strings.Fields(comments.ReplaceAllString(m.SQL, "")), " ")
			got = append(got, fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16])
		}
		must.Same(t, "hashes of the migrations", test.want, got)
	}
}
