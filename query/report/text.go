package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// MaxText is how many characters of a value a page shows.
const MaxText = 60

// maxLong is how many characters of a name, an address or a message a page shows.
const maxLong = 400

// cut makes a value fit for a page, and long a name or a message: one line, no character
// that turns what stands around it, not too many of them.
func cut(text string) string  { return cleaned(text, MaxText) }
func long(text string) string { return cleaned(text, maxLong) }

func cleaned(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = '·'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// grouped writes a number with its thousands apart: 1,234,567.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// short writes a number for an axis: 1.2M.
func short(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return trimmed(n/unit.size) + unit.name
		}
	}
	return trimmed(n)
}

// size writes bytes: 1.2 MiB.
func size(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return trimmed(n/unit.size) + " " + unit.name
		}
	}
	return trimmed(n) + " B"
}

func trimmed(n float64) string {
	text := strconv.FormatFloat(n, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

func instantText(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return ""
	}
	return instant(t)
}

// percent of a share: 0 and 100 only where it is none or all.
func percent(part, whole int64) string {
	switch {
	case whole == 0 || part == 0:
		return "0 %"
	case part == whole:
		return "100 %"
	}
	share := 100 * float64(part) / float64(whole)
	switch {
	case share < 0.1:
		return "< 0.1 %"
	case share > 99.9:
		return "> 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", share)
}

// title says in words what a day is: what a picture of it shows.
func (d *Day) title() string {
	parts := []string{d.Name + ": " + string(d.State)}
	if d.Version >= 0 {
		parts = append(parts, "version "+grouped(d.Version))
	}
	if d.Known {
		c := &d.Counts
		parts = append(parts, grouped(d.Rows)+" rows",
			fmt.Sprintf("%s inserted, %s updated, %s deleted", grouped(c.Inserts), grouped(c.Updates), grouped(c.Deletes)))
		for _, also := range []struct {
			n    int64
			what string
		}{{c.Drift, "drift"}, {c.Late, "late"}, {c.Duplicates, "duplicates"}, {d.DeadLetters, "dead letters up to it"}} {
			if also.n > 0 {
				parts = append(parts, grouped(also.n)+" "+also.what)
			}
		}
	}
	if len(d.Attributes) > 0 {
		parts = append(parts, strings.Join(d.Attributes, ", "))
	}
	return strings.Join(parts, " · ")
}

// changes are the changes that a day holds.
func (d *Day) changes() int64 { return d.Counts.Applied() }
