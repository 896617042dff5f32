package cli

import "flag"

func moveCommands() []*command {
	return []*command{
		{
			name: "import", args: "FILE|-", min: 1, max: 1, reach: bothWays, summary: "create tokens from a file",
			about: `The file holds JSON lines, each the body of POST /tokens, or CSV with a header.
				--map assigns columns to fields: --map id=ref,data.number=pan. Without it,
				columns have the names of fields. The file name determines the format: .jsonl,
				.ndjson, .json, .csv or .tsv. Another ending may follow: .gz for gzip, .age for
				a file of tokenvault export (see --identity), and .pgp, .gpg or .asc for OpenPGP
				(see --pgp-key; TOKENVAULT_PGP_PASSPHRASE holds the passphrase of the key). -
				reads JSON lines from standard input, unless --format names another format.

				A row that cannot be imported is reported with its number and the broken rules.
				It does not stop the import, but the exit status is 1. With --resume the import
				keeps its state in a file. After an interruption, run the same command again: it
				continues without duplicates. Over HTTP the application of TOKENVAULT_API_KEY
				creates the tokens.`,
			example: "tokenvault import cards.csv --type card --map id=ref,data.number=pan,data.expiration_month=month --resume cards.state --tenant Acme",
			setup: func(f *flag.FlagSet) action {
				p := &importFlags{}
				p.flags(f)
				return func(c *call) error { return importTokens(c, p) }
			},
		},
		{
			name: "export", args: "[FILE|-]", max: 1, reach: inProcess, asks: true, summary: "write tokens to a file, sealed",
			about: `Writes tokens as JSON lines for tokenvault import, oldest first, sealed with age
				for the recipients. With --clear it writes plaintext, after a confirmation on
				the terminal or with --yes. The audit log gets a use of each token. A cvc is not
				exported. Without a FILE it writes to standard output. age-keygen creates an
				identity and prints its recipient.`,
			example: "tokenvault export tokens.jsonl.age --recipient age1... --filter 'type:card' --tenant Acme",
			setup: func(f *flag.FlagSet) action {
				p := &exportFlags{}
				p.flags(f)
				return func(c *call) error { return exportTokens(c, p) }
			},
		},
	}
}
