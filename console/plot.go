package console

import (
	"fmt"
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
	count := func(get func(*point) int) []float64 {
		out := make([]float64, len(f.Points))
		for i := range f.Points {
			out[i] = float64(get(&f.Points[i]))
		}
		return out
	}
	millis := func(get func(*point) time.Duration) []float64 {
		out := make([]float64, len(f.Points))
		for i := range f.Points {
			out[i] = float64(get(&f.Points[i])) / float64(time.Millisecond)
		}
		return out
	}
	whole := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	creates, reads := count(func(p *point) int { return p.Creates }), count(func(p *point) int { return p.Reads })
	errors := count(func(p *point) int { return p.Errors })
	p50, p99 := millis(func(p *point) time.Duration { return p.P50 }), millis(func(p *point) time.Duration { return p.P99 })
	return []plot{
		f.plot("creates", "Creates", whole, curve{"Creates", "a", creates, false}).total(f.Creates),
		f.plot("reads", "Reads", whole, curve{"Reads", "a", reads, false}).total(f.Reads),
		f.plot("errors", "Errors on this node", whole, curve{"Errors", "bad", errors, false}).total(f.Errors),
		f.plot("latency", "Latency on this node", milliseconds, curve{"p99", "b", p99, true}, curve{"p50", "a", p50, true}).latency(f),
	}
}

// curve is the input of a series.
type curve struct {
	name, class string
	values      []float64
	line        bool
}

func (p plot) total(n int) plot {
	p.Series[0].Total = number(n)
	return p
}

func (p plot) latency(f *figures) plot {
	p.Series[0].Total, p.Series[1].Total = duration(f.P99), duration(f.P50)
	return p
}

func (f *figures) plot(id, title string, text func(float64) string, curves ...curve) plot {
	most := 0.0
	for _, c := range curves {
		for _, v := range c.values {
			most = max(most, v)
		}
	}
	p := plot{ID: id, Title: title, Most: text(most), From: clock(f.Points[0].At), To: "now"}
	p.About = fmt.Sprintf("%s over time, from %s to now, peak %s", title, p.From, p.Most)
	for _, c := range curves {
		s := series{Name: c.name, Class: c.class}
		if c.line {
			s.Lines = lines(c.values, most)
		} else {
			s.Bars = bars(c.values, most)
		}
		p.Series = append(p.Series, s)
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
