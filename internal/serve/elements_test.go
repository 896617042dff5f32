package serve

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestElementsFlags(t *testing.T) {
	t.Parallel()
	good := elementsFlags{addr: "127.0.0.1:0", origins: List{"https://shop.example"}}
	must.Do(t, good.check("SVC-"))
	off := elementsFlags{}
	must.Do(t, off.check("SVC-"))
	for text, e := range map[string]elementsFlags{
		"need --elements":                  {origins: good.origins},
		"--elements must be an address":    {addr: "8090", origins: good.origins},
		"--elements needs --elements-orig": {addr: good.addr},
		"* in --elements-origins":          {addr: good.addr, origins: List{"*"}},
		"--elements-origins is not an ori": {addr: good.addr, origins: List{"https://shop.example/pay"}},
		"takes the id of a tenant":         {addr: good.addr, origins: good.origins, tenant: "acme"},
		"--elements-authorize must be an":  {addr: good.addr, origins: good.origins, authorize: "shop.example"},
	} {
		must.Match(t, text, e.check("SVC-"), must.Text(text))
	}
}
