package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// column is a column of a table.
type column[T any] struct {
	title string
	text  func(T) string
}

// gap is the space between columns.
const gap = "  "

// narrowest is the minimum width of a column that is narrowed to fit the
// terminal.
const narrowest = 8

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
			if err := writeJSON(out, item); err != nil {
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
			row[i] = printable(col.text(item))
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 || failed == nil {
		c.printTable(rows)
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
		return writeJSON(c.Out, item)
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
		label := fmt.Sprintf("%-*s", width+len(gap), strings.ToLower(col.title))
		if strings.Contains(text, "\n") { // below its label
			label = strings.TrimRight(label, " ")
			text = strings.ReplaceAll("\n"+strings.TrimLeft(text, "\n"), "\n", "\n    ")
		}
		if _, err := fmt.Fprintf(c.Out, "%s%s\n", p.Dim(label), printable(text)); err != nil {
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
		return writeJSON(c.Out, object)
	}
	_, err = fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}

// note prints a message for a person to standard error.
func (c *call) note(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Err, format+"\n", args...)
}

func writeJSON(w io.Writer, x any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(x)
}

// printTable prints rows; the first one is the header. If the output is a
// terminal, the table fits its width.
func (c *call) printTable(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if columns, ok := terminal.Columns(c.Out); ok && columns > 0 {
		fit(widths, columns-1)
	}
	p := c.palette()
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = shorten(cell, widths[i])
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + gap)
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if n == 0 {
			text = p.Bold(text)
		}
		_, _ = fmt.Fprintln(c.Out, text)
	}
}

// fit narrows the widest columns until the table is no wider than room.
func fit(widths []int, room int) {
	for {
		sum, widest := (len(widths)-1)*len(gap), 0
		for i, width := range widths {
			sum += width
			if width > widths[widest] {
				widest = i
			}
		}
		if sum <= room || widths[widest] <= narrowest {
			return
		}
		widths[widest]--
	}
}

// shorten truncates a text to a width and marks that with an ellipsis.
func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// printable replaces control characters, which could manipulate the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

func (c *call) palette() terminal.Palette { return terminal.NewPalette(c.Out, c.getenv) }

// timeText returns a time for a table.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

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
				c.note("There are more; --limit 0 shows all.")
				return
			}
			n++
			if !yield(item, err) {
				return
			}
		}
	}
}
