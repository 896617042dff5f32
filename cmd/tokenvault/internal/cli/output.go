package cli

import (
	"bufio"
	"fmt"
	"iter"
	"strings"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// column is a column of a table.
type column[T any] struct {
	title string
	text  func(T) string
}

// printAll prints items as one JSON object per line, or as a table. A table
// holds all rows in memory so that its columns line up. JSON is written as it
// arrives.
func printAll[T any](c *call, items iter.Seq2[T, error], columns []column[T]) error {
	if c.json {
		out := bufio.NewWriter(c.Out)
		for item, err := range items {
			if err != nil {
				_ = out.Flush()
				return err
			}
			if err := shell.WriteJSON(out, item); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	rows := [][]string{make([]string, len(columns))}
	for i, col := range columns {
		rows[0][i] = col.title
	}
	var failed error
	for item, err := range items {
		if err != nil {
			failed = err
			break
		}
		row := make([]string, len(columns))
		for i, col := range columns {
			row[i] = shell.Printable(col.text(item))
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 || failed == nil {
		shell.PrintTable(c.Out, c.palette(), rows)
	}
	return failed
}

// printOne returns a function that prints an item, unless reading it failed.
func printOne[T any](c *call, columns []column[T]) func(T, error) error {
	return func(item T, err error) error {
		if err != nil {
			return err
		}
		return printItem(c, item, columns)
	}
}

// printItem prints an item as one line of JSON, or with one line for each column
// that is not empty.
func printItem[T any](c *call, item T, columns []column[T]) error {
	if c.json {
		return shell.WriteJSON(c.Out, item)
	}
	width := 0
	for _, col := range columns {
		width = max(width, len(col.title))
	}
	p := c.palette()
	for _, col := range columns {
		text := strings.TrimRight(col.text(item), "\n")
		if text == "" {
			continue
		}
		label := fmt.Sprintf("%-*s", width+len(shell.Gap), strings.ToLower(col.title))
		if strings.Contains(text, "\n") { // below its label
			label = strings.TrimRight(label, " ")
			text = strings.ReplaceAll("\n"+strings.TrimLeft(text, "\n"), "\n", "\n    ")
		}
		if _, err := fmt.Fprintf(c.Out, "%s%s\n", p.Dim(label), shell.Printable(text)); err != nil {
			return err
		}
	}
	return nil
}

// say prints a sentence about the result, or an object with --json, unless err is
// the result.
func (c *call) say(err error, object map[string]any, format string, args ...any) error {
	if err != nil {
		return err
	}
	if c.json {
		return shell.WriteJSON(c.Out, object)
	}
	_, err = fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}

// inform prints a message for a person to standard error.
func (c *call) inform(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Err, format+"\n", args...)
}

func (c *call) palette() terminal.Palette { return terminal.NewPalette(c.Out, c.getenv) }

// each iterates over items that are in memory, unless reading them failed.
func each[T any](items []T, err error) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range items {
			if !yield(&items[i], nil) {
				return
			}
		}
	}
}

// limited stops after limit items, and says so if there are others. Zero means no
// limit.
func limited[T any](c *call, items iter.Seq2[T, error], limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for item, err := range items {
			if err == nil && limit > 0 && n == limit {
				c.inform("There are more; --limit 0 shows all.")
				return
			}
			n++
			if !yield(item, err) {
				return
			}
		}
	}
}
