package console

import "time"

// figures are the calls that a recorder has seen in a span of time.
type figures struct {
	Points                  []point // oldest first
	Creates, Reads, Others  int
	Errors, Runs, RunErrors int
	Running                 int
	P50, P99                time.Duration
	Every                   time.Duration // length of a point
}

// Calls returns the number of operations on tokens.
func (f *figures) Calls() int { return f.Creates + f.Reads + f.Others }

// point is one step of a span.
type point struct {
	At                             time.Time
	Creates, Reads, Others, Errors int
	P50, P99                       time.Duration
}

// span is a period up to now, divided into steps.
type span struct {
	name          string
	points, every int // minutes
}

var (
	lastHour = span{"hour", 60, 1}
	lastDay  = span{"day", 96, 15}
)

// figures adds up the minutes of a span.
func (r *Recorder) figures(s span) *figures {
	out := &figures{Every: time.Duration(s.every) * time.Minute, Points: make([]point, s.points)}
	var all [latencyBuckets]int
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Running = r.running
	last := r.now().Unix()/60 + 1 // exclusive
	if s.every > 1 {
		last = (last + int64(s.every) - 1) / int64(s.every) * int64(s.every)
	}
	for i := range out.Points {
		from := last - int64((s.points-i)*s.every)
		p := &out.Points[i]
		p.At = time.Unix(from*60, 0).UTC()
		var took [latencyBuckets]int
		for at := from; at < from+int64(s.every); at++ {
			if m := &r.minutes[at%minutesKept]; m.at == at {
				out.add(m)
				p.add(m)
				for b, n := range m.took {
					took[b] += int(n)
					all[b] += int(n)
				}
			}
		}
		p.P50, p.P99 = quantile(&took, 50), quantile(&took, 99)
	}
	out.P50, out.P99 = quantile(&all, 50), quantile(&all, 99)
	return out
}

func (f *figures) add(m *minute) {
	f.Creates += int(m.creates)
	f.Reads += int(m.reads)
	f.Others += int(m.others)
	f.Errors += int(m.errors)
	f.Runs += int(m.runs)
	f.RunErrors += int(m.runErrors)
}

func (p *point) add(m *minute) {
	p.Creates += int(m.creates)
	p.Reads += int(m.reads)
	p.Others += int(m.others)
	p.Errors += int(m.errors)
}

// quantile returns the duration that this percentage of the calls did not exceed,
// or 0 without calls.
func quantile(took *[latencyBuckets]int, percent int) time.Duration {
	total := 0
	for _, n := range took {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank, seen := (total*percent+99)/100, 0
	for b, n := range took {
		if seen += n; seen >= rank {
			return bucketTime(b)
		}
	}
	return bucketTime(latencyBuckets - 1)
}
