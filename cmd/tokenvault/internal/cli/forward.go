package cli

import (
	"flag"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

func forwardCommands() []*command {
	return []*command{
		{
			name: "forward ca", reach: inProcess, summary: "print the certificate that clients of the forward proxy must trust",
			example: "tokenvault forward ca --db vault.db --key-file vault.key > forward.pem",
			act:     inVault(func(c *call, v *vault.Vault) error { return c.printText(v.ForwardCA(c.ctx)) }),
		},
		{
			name: "forward rotate-ca", reach: inProcess, summary: "replace the certificate of the forward proxy, and print what clients must trust",
			about: `The old certificate signs for 7 more days. Until then, give clients both
				certificates. With --now it signs no longer: use this if its key may be known to
				others, and remove the old certificate from all clients. Servers follow within
				a second.`,
			example: "tokenvault forward rotate-ca --domains stripe.com,adyen.com > forward.pem",
			setup: func(f *flag.FlagSet) action {
				o := &vault.RotateCAOptions{}
				f.BoolVar(&o.Now, "now", false, "end the old certificate at once")
				domains := f.String("domains", "", "`names` of domains, separated by commas, that the new certificate is limited to")
				return inVault(func(c *call, v *vault.Vault) error {
					if *domains != "" {
						o.Domains = strings.Split(strings.ToLower(*domains), ",")
					}
					return c.printText(v.RotateForwardCA(c.ctx, o))
				})
			},
		},
	}
}
