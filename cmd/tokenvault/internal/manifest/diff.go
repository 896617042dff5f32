package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// around is the number of unchanged lines around a change in a diff.
const around = 3

// maxCells limits the work of comparing two texts line by line. Above it,
// everything between their common start and end is shown as replaced.
const maxCells = 4 << 20

// edit is a line of a diff: kept, removed or added.
type edit struct {
	mark byte // ' ', '-' or '+'
	line string
}

// Diff compares two texts line by line. It returns the lines of a diff,
// with some unchanged lines around each change, or nil if the texts are
// equal.
func Diff(before, after string) []string {
	if before == after {
		return nil
	}
	edits := edits(splitLines(before), splitLines(after))
	near := make([]bool, len(edits))
	for i, e := range edits {
		if e.mark == ' ' {
			continue
		}
		for j := max(0, i-around); j < min(len(edits), i+around+1); j++ {
			near[j] = true
		}
	}
	var lines []string
	a, b := 1, 1
	for i, e := range edits {
		if near[i] {
			if i == 0 || !near[i-1] {
				lines = append(lines, fmt.Sprintf("@@ -%d +%d @@", a, b))
			}
			lines = append(lines, string(e.mark)+e.line)
		}
		if e.mark != '+' {
			a++
		}
		if e.mark != '-' {
			b++
		}
	}
	return lines
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// edits returns the edits that turn the lines of a into the lines of b.
func edits(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append([]edit{{' ', a[len(a)-1]}}, tail...)
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return append(append(head, middle(a, b)...), tail...)
}

// middle returns edits that keep the longest common subsequence of lines.
func middle(a, b []string) []edit {
	common := longest(a, b)
	var all []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case common != nil && i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, edit{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (common == nil || j == len(b) || common[i+1][j] >= common[i][j+1]):
			all = append(all, edit{'-', a[i]})
			i++
		default:
			all = append(all, edit{'+', b[j]})
			j++
		}
	}
	return all
}

// longest returns a table of the number of common lines of a[i:] and b[j:],
// in order. It returns nil if the table would be too large.
func longest(a, b []string) [][]int32 {
	if (len(a)+1)*(len(b)+1) > maxCells {
		return nil
	}
	table := make([][]int32, len(a)+1)
	for i := range table {
		table[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	return table
}

// Changes collects the differences between an existing item and its manifest.
type Changes struct {
	Names []string // of fields
	Diff  []string // lines
}

// Text compares a text of one line.
func (d *Changes) Text(name, before, after string) {
	if before == after {
		return
	}
	d.Names = append(d.Names, name)
	if before != "" {
		d.Diff = append(d.Diff, "-"+name+": "+before)
	}
	if after != "" {
		d.Diff = append(d.Diff, "+"+name+": "+after)
	}
}

// Code compares code line by line.
func (d *Changes) Code(name, before, after string) {
	if before != after {
		d.Names = append(d.Names, name)
		d.Diff = append(append(d.Diff, name+":"), Diff(before, after)...)
	}
}

// Configuration compares names and values. The diff shows only names.
func (d *Changes) Configuration(before, after map[string]string) {
	all := maps.Clone(after)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, before)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		old, was := before[name]
		now, is := after[name]
		if was == is && old == now {
			continue
		}
		label := "configuration." + name
		d.Names = append(d.Names, label)
		switch {
		case !was:
			d.Diff = append(d.Diff, "+"+label)
		case !is:
			d.Diff = append(d.Diff, "-"+label)
		default:
			d.Diff = append(d.Diff, "-"+label+": (current value)", "+"+label+": (new value)")
		}
	}
}
