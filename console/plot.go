package console

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// plot is a small chart of figures over time, with the same figures in a table.
type plot struct {
	ID, Title, About string
	Series           []series
	Most             string // label at the top of the chart
	From, To         string // labels at its ends
	Rows             []plotRow
}

// series is one kind of figure in a plot: bars, or a line.
type series struct {
	Name, Class, Total string
	Bars               []bar
	Lines              []string // the points of polylines, with gaps between them
}

type bar struct{ X, Y, W, H float64 }

// plotRow is a row of that table.
type plotRow struct {
	At     string
	Values []string
}

// Size of a chart, in its own units.
const (
	plotWidth  = 600.0
	plotHeight = 100.0
)

// plotsOf draws the plots of the overview.
func plotsOf(f *figures) []plot {
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	whole := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	return []plot{
		f.plot("creates", "Creates", whole, f.curve("Creates", "a", number(f.Creates), func(p *point) float64 { return float64(p.Creates) })),
		f.plot("reads", "Reads", whole, f.curve("Reads", "a", number(f.Reads), func(p *point) float64 { return float64(p.Reads) })),
		f.plot("errors", "Errors on this node", whole, f.curve("Errors", "bad", number(f.Errors), func(p *point) float64 { return float64(p.Errors) })),
		f.plot("latency", "Latency on this node", milliseconds,
			f.curve("p99", "b", duration(f.P99), func(p *point) float64 { return millis(p.P99) }),
			f.curve("p50", "a", duration(f.P50), func(p *point) float64 { return millis(p.P50) })),
	}
}

// curve is a series with its values.
type curve struct {
	series
	values []float64
}

// curve returns the values of a series at all points.
func (f *figures) curve(name, class, total string, value func(*point) float64) curve {
	c := curve{series{Name: name, Class: class, Total: total}, make([]float64, len(f.Points))}
	for i := range f.Points {
		c.values[i] = value(&f.Points[i])
	}
	return c
}

// plot returns a plot of one curve as bars, or of several curves as lines.
func (f *figures) plot(id, title string, text func(float64) string, curves ...curve) plot {
	most := 0.0
	for _, c := range curves {
		most = max(most, slices.Max(c.values))
	}
	p := plot{ID: id, Title: title, Most: text(most), From: clock(f.Points[0].At), To: "now"}
	p.About = fmt.Sprintf("%s over time, from %s to now, peak %s", title, p.From, p.Most)
	for _, c := range curves {
		if len(curves) > 1 {
			c.Lines = lines(c.values, most)
		} else {
			c.Bars = bars(c.values, most)
		}
		p.Series = append(p.Series, c.series)
	}
	p.Rows = rowsOf(f.Points, text, curves)
	return p
}

func bars(values []float64, most float64) []bar {
	step := plotWidth / float64(len(values))
	var out []bar
	for i, v := range values {
		if v == 0 {
			continue
		}
		h := max(v/most*plotHeight, 2) // keep small values visible
		out = append(out, bar{X: float64(i)*step + step*.15, Y: plotHeight - h, W: step * .7, H: h})
	}
	return out
}

// lines draws values as lines, with gaps where values are missing.
func lines(values []float64, most float64) []string {
	step := plotWidth / float64(len(values))
	var all, points []string
	end := func() {
		if len(points) == 1 {
			points = append(points, points[0]) // a dot
		}
		if len(points) > 0 {
			all = append(all, strings.Join(points, " "))
		}
		points = nil
	}
	for i, v := range values {
		if v == 0 {
			end()
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", (float64(i)+.5)*step, plotHeight-v/most*(plotHeight-4)-2))
	}
	end()
	return all
}

// rowsOf returns a row for each point with calls, newest first.
func rowsOf(points []point, text func(float64) string, curves []curve) []plotRow {
	var rows []plotRow
	for i := len(points) - 1; i >= 0; i-- {
		row, some := plotRow{At: clock(points[i].At)}, false
		for _, c := range curves {
			row.Values = append(row.Values, text(c.values[i]))
			some = some || c.values[i] != 0
		}
		if some {
			rows = append(rows, row)
		}
	}
	return rows
}

func clock(t time.Time) string { return t.UTC().Format("15:04") }
