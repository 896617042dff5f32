package cli

import "flag"

func moveCommands() []*command {
	return []*command{
		{
			name: "import", args: "FILE|-", min: 1, max: 1, reach: bothWays, summary: "create tokens from a file",
			about: `The file holds JSON lines, each as POST /tokens takes it, or CSV with a header.
				--map says which column is which field: --map id=ref,data.number=pan. Without it
				the columns are named as the fields are. The format is that of the name's end:
				.jsonl, .ndjson or .json, .csv, .tsv; behind it .gz for gzip, .age for a file of
				tokenvault export, which --identity opens, and .pgp, .gpg or .asc for OpenPGP, which
				--pgp-key opens, with TOKENVAULT_PGP_PASSPHRASE if the key has one. - reads JSON
				lines from standard input, unless --format says otherwise.

				Rows that cannot be imported are reported, one line each, with their number and
				the rules that they break, and do not stop the rest: it exits with 1 then. With
				--resume the state of the import is kept in a file, and running the same command
				again after it was stopped goes on where it was, without doubles. Over HTTP the
				tokens are created by the key in TOKENVAULT_API_KEY.`,
			example: "tokenvault import cards.csv --type card --map id=ref,data.number=pan,data.expiration_month=month --resume cards.state --tenant Acme",
			setup: func(f *flag.FlagSet) action {
				p := &importFlags{}
				p.flags(f)
				return func(c *call) error { return importTokens(c, p) }
			},
		},
		{
			name: "export", args: "[FILE|-]", max: 1, reach: inProcess, asks: true, summary: "write tokens to a file, sealed",
			about: `Writes tokens as JSON lines that tokenvault import reads, oldest first, sealed with age
				for the recipients. With --clear they are written in clear, which asks first, or
				needs --yes where there is no terminal to ask on. Every token that is written is a use in
				the audit log. A cvc is not exported. Without a FILE it writes to standard
				output. age-keygen makes an identity and shows its recipient.`,
			example: "tokenvault export tokens.jsonl.age --recipient age1... --filter 'type:card' --tenant Acme",
			setup: func(f *flag.FlagSet) action {
				p := &exportFlags{}
				p.flags(f)
				return func(c *call) error { return exportTokens(c, p) }
			},
		},
	}
}
