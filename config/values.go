package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Secret is text that is not printed.
type Secret string

const masked = "********"

// String is a mask, or empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format implements fmt.Formatter: no verb prints it, %d not either.
func (s Secret) Format(f fmt.State, verb rune) { fmt.Fprint(f, s.String()) }

// MarshalText gives String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal is the text itself.
func (s Secret) Reveal() string { return string(s) }

var (
	durationForm = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d|w))+$`)
	durationPart = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d|w)`)
	sizeForm     = regexp.MustCompile(`^([0-9]+) ?(B|KiB|MiB|GiB|TiB)?$`)
)

// ParseDuration reads Go's durations with d (24 h) and w (7 d) besides: 90s,
// 1h30m, 7d. Never negative.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if !durationForm.MatchString(text) {
		return 0, fmt.Errorf("%q is no duration: write 90s, 10m, 1h30m, 7d or 2w", text)
	}
	var sum time.Duration
	for _, p := range durationPart.FindAllStringSubmatch(text, -1) {
		number, unit, times := p[1], p[2], time.Duration(1)
		switch unit {
		case "d":
			unit, times = "h", 24
		case "w":
			unit, times = "h", 7*24
		}
		d, err := time.ParseDuration(number + unit)
		if err != nil || d > (math.MaxInt64-sum)/times {
			return 0, fmt.Errorf("%q is longer than 292 years", text)
		}
		sum += d * times
	}
	return sum, nil
}

// FormatDuration is a short text that ParseDuration reads back: 10m, 24h, 1h30m, 30d.
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0s"
	case d > day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Size is a number of bytes, written 128MiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads a number of bytes with a unit or without.
func (s *Size) UnmarshalText(text []byte) error {
	m := sizeForm.FindStringSubmatch(string(text))
	if m == nil {
		return fmt.Errorf("%q is no size: write 64KiB, 128MiB or 1GiB", text)
	}
	unit := int64(1)
	for _, u := range sizeUnits {
		if u.name == m[2] {
			unit = u.bytes
		}
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is too large for a size", text)
	}
	*s = Size(n * unit)
	return nil
}

// MarshalText gives String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the size in the largest unit that gives a whole number.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

// Fraction is a part of a whole, 0 to 1, written 20% or 0.2.
type Fraction float64

// UnmarshalText reads a percentage, or a number with a decimal point. A bare 1
// is refused: it may be meant as one per cent.
func (f *Fraction) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	number = strings.TrimSpace(number)
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.ContainsAny(number, "eEpPxXnN_+") || !percent && v != 0 && !strings.Contains(number, ".") {
		return fmt.Errorf("%q is no fraction: write 20%% or 0.2", text)
	}
	if percent {
		v /= 100
	}
	if v < 0 || v > 1 {
		return fmt.Errorf("%s is not between 0%% and 100%%", text)
	}
	*f = Fraction(v)
	return nil
}

// MarshalText gives String.
func (f Fraction) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// String is the percentage.
func (f Fraction) String() string {
	if text := strconv.FormatFloat(float64(f)*100, 'f', -1, 64); len(text) <= 8 {
		return text + "%"
	}
	// What is no short percentage is written so that it reads back the same.
	text := strconv.FormatFloat(float64(f), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// Start says where a table without offsets begins to read.
type Start struct {
	// At is earliest, latest, time or offsets.
	At   string
	Time time.Time
	// Offsets has one entry a partition, in the order written.
	Offsets []StartOffset
}

// StartOffset is the first offset to read of a partition. Topic is "" where the
// table has one topic.
type StartOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// UnmarshalText reads earliest, latest, a time with its offset (RFC 3339), or
// offsets: "0=120,1=98", "shop.user_dim/0=120".
func (s *Start) UnmarshalText(text []byte) error {
	t := string(text)
	if t == "earliest" || t == "latest" {
		*s = Start{At: t}
		return nil
	}
	if at, err := time.Parse(time.RFC3339, t); err == nil {
		*s = Start{At: "time", Time: at}
		return nil
	}
	if !strings.Contains(t, "=") {
		return fmt.Errorf("%q is no start: write earliest, latest, a time such as 2022-07-16T00:00:00+08:00, or offsets such as 0=120,1=98", t)
	}
	offsets := Start{At: "offsets"}
	for part := range strings.SplitSeq(t, ",") {
		o, err := parseStartOffset(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(offsets.Offsets, func(p StartOffset) bool { return p.Topic == o.Topic && p.Partition == o.Partition }) {
			return fmt.Errorf("partition %d is given two offsets", o.Partition)
		}
		offsets.Offsets = append(offsets.Offsets, o)
	}
	*s = offsets
	return nil
}

func parseStartOffset(text string) (o StartOffset, err error) {
	where, offset, _ := strings.Cut(text, "=")
	if i := strings.LastIndex(where, "/"); i >= 0 {
		o.Topic, where = where[:i], where[i+1:]
	}
	p, perr := strconv.ParseUint(where, 10, 31)
	n, nerr := strconv.ParseUint(offset, 10, 63)
	if err := errors.Join(perr, nerr); err != nil {
		return o, fmt.Errorf("%q is no offset of a partition: write PARTITION=OFFSET or TOPIC/PARTITION=OFFSET", text)
	}
	o.Partition, o.Offset = int32(p), int64(n)
	return o, nil
}

// MarshalText gives the text that UnmarshalText reads.
func (s Start) MarshalText() ([]byte, error) {
	switch s.At {
	case "time":
		return []byte(s.Time.Format(time.RFC3339Nano)), nil
	case "offsets":
		var parts []string
		for _, o := range s.Offsets {
			part := fmt.Sprintf("%d=%d", o.Partition, o.Offset)
			if o.Topic != "" {
				part = o.Topic + "/" + part
			}
			parts = append(parts, part)
		}
		return []byte(strings.Join(parts, ",")), nil
	}
	return []byte(s.At), nil
}
