package cli

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// exportFlags select the tokens to export and the recipients.
type exportFlags struct {
	filter, recipientsFile string
	recipients             serve.List
	clear                  bool
}

func (p *exportFlags) flags(f *flag.FlagSet) {
	f.StringVar(&p.filter, "filter", "", "`query` for the tokens, as in tokenvault token search; by default all")
	f.Func("recipient", "age `recipients`, separated by commas; repeatable", p.recipients.Set)
	f.StringVar(&p.recipientsFile, "recipients-file", "", "`file` with one age recipient per line")
	f.BoolVar(&p.clear, "clear", false, "write plaintext")
}

// seal returns the recipients of the output, or nil with --clear.
func (p *exportFlags) seal() ([]age.Recipient, error) {
	text := strings.Join(p.recipients, "\n")
	if p.recipientsFile != "" {
		content, err := shell.ReadFile(p.recipientsFile)
		if err != nil {
			return nil, err
		}
		text += "\n" + string(content)
	}
	sealed := strings.TrimSpace(text) != ""
	switch {
	case sealed && p.clear:
		return nil, shell.Usagef("give recipients or --clear, not both")
	case !sealed && !p.clear:
		return nil, shell.Usagef("no recipient is given: use --recipient with an age recipient, or --clear to write plaintext")
	case p.clear:
		return nil, nil
	}
	recipients, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil {
		return nil, shell.Usagef("an age recipient is invalid; it begins with age1")
	}
	return recipients, nil
}

func exportTokens(c *call, p *exportFlags) error {
	recipients, err := p.seal()
	if err != nil {
		return err
	}
	if p.clear {
		if c.operatorName() == "" {
			return shell.Usagef("a plaintext export needs a name for the audit log; use --actor")
		}
		if err := c.confirm("This writes the plaintext of tokens. Continue?"); err != nil {
			return err
		}
	} else if _, shown := terminal.Columns(c.Out); shown && c.exportFile() == "" {
		return shell.Usagef("a sealed export is not for a terminal: name a file")
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	tokens := 0
	write := func(w io.Writer) (_ int64, err error) {
		tokens, err = exportTo(c, o.owner.Client, w, recipients, p.filter)
		return 0, err
	}
	if file := c.exportFile(); file != "" {
		if _, err := os.Lstat(file); err == nil {
			return fmt.Errorf("the file %s exists; name another one, or move it", file)
		}
		err = serve.NewFile(file, write)
	} else {
		_, err = write(c.Out)
	}
	if err != nil {
		return err
	}
	c.inform("Exported %s.", shell.Counted(tokens, "token"))
	return nil
}

// exportFile returns the file to write, or "" for standard output.
func (c *call) exportFile() string {
	if len(c.args) == 0 || c.args[0] == "-" {
		return ""
	}
	return c.args[0]
}

// exportTo writes tokens and returns their number.
func exportTo(c *call, from *vault.Client, w io.Writer, recipients []age.Recipient, query string) (n int, err error) {
	buffer := bufio.NewWriterSize(w, 1<<20)
	var out io.Writer = buffer
	finish := buffer.Flush
	if recipients != nil {
		sealed, err := age.Encrypt(buffer, recipients...)
		if err != nil {
			return 0, err
		}
		lines := bufio.NewWriterSize(sealed, 64<<10)
		out = lines
		finish = func() error { return errors.Join(lines.Flush(), sealed.Close(), buffer.Flush()) }
	}
	bar := terminal.NewProgress(c.Err)
	defer bar.Clear()
	var sel vault.TokenSelection
	if query != "" {
		sel = vault.SearchTokensParams{Query: query}
	}
	for token, err := range from.Export(c.ctx, sel) {
		if err != nil {
			return n, err
		}
		if err := shell.WriteJSON(out, token); err != nil {
			return n, err
		}
		if n++; n%progressEvery == 0 {
			rate := float64(n) / max(bar.Took().Seconds(), 0.001)
			bar.Show("Exporting", -1, fmt.Sprintf("%s tokens  %s/s", shell.Grouped(n), shell.Grouped(int(rate))))
		}
	}
	return n, finish()
}
