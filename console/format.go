package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// number formats a count with separators: 1,234,567.
func number(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// duration formats a duration with at most three digits.
func duration(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return milliseconds(float64(d) / float64(time.Millisecond))
}

func milliseconds(ms float64) string {
	switch {
	case ms == 0:
		return "0 ms"
	case ms < 1:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
}

// bytesText formats a size in bytes.
func bytesText(n uint64) string {
	const unit = 1024.0
	size, names := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for i, name := range names {
		if size < unit || i == len(names)-1 {
			if i == 0 {
				return fmt.Sprintf("%d B", n)
			}
			return fmt.Sprintf("%.1f %s", size, name)
		}
		size /= unit
	}
	return ""
}

// moment formats a time for people. The zero time gives the empty string.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// machine formats a time for programs.
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// days formats an age in days.
func days(age time.Duration) string {
	switch n := int(age / (24 * time.Hour)); n {
	case 0:
		return "under a day"
	case 1:
		return "1 day"
	default:
		return number(n) + " days"
	}
}

// seconds formats a lag in seconds.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return number(int(d.Seconds())) + " s"
}

// ago formats an age in one unit.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return "< 1 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return days(d)
	}
}

// sentence begins a message with a capital letter and ends it with a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
