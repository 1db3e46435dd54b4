package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Policy says how long savepoints are kept: all of them for a while, then fewer.
type Policy struct {
	// Forever keeps every savepoint; the rest is then empty.
	Forever bool
	// Keep is the age up to which every savepoint is kept.
	Keep Span
	// Then thins out older ones; ages grow from stage to stage.
	Then []Stage
}

// Stage keeps the last savepoint of each period.
type Stage struct {
	// Ends is day, week, month, quarter or year.
	Ends string
	// Until is the age up to which they are kept, counted from the label's end
	// as for Keep; without meaning where Forever is set.
	Until   Span
	Forever bool
}

// Span is an age in units of the calendar: seven years are seven years, leap
// days included.
type Span struct {
	N int
	// Unit is hour, day, week, month or year, and in the first span of a policy label too:
	// so many labels back from the newest sealed one.
	Unit string
}

// String reads "90 days".
func (s Span) String() string {
	if s.N == 1 {
		return "1 " + s.Unit
	}
	return fmt.Sprintf("%d %ss", s.N, s.Unit)
}

// Days is the span in days, near enough to compare spans by; 0 for labels.
func (s Span) Days() float64 {
	return float64(s.N) * map[string]float64{"hour": 1. / 24, "day": 1, "week": 7, "month": 365.2425 / 12, "year": 365.2425}[s.Unit]
}

const policyHelp = `write forever, 90d, or "keep 90 days, then month ends for 7y"`

var (
	spanForm  = regexp.MustCompile(`^([0-9]{1,5})([a-z]*)$`)
	spanUnits = map[string]string{
		"h": "hour", "hour": "hour", "hours": "hour", "d": "day", "day": "day", "days": "day", "w": "week", "week": "week",
		"weeks": "week", "month": "month", "months": "month", "y": "year", "year": "year", "years": "year",
		"label": "label", "labels": "label",
	}
	stageEnds = map[string]bool{"day": true, "week": true, "month": true, "quarter": true, "year": true}
)

// UnmarshalText reads
//
//	forever
//	[keep] SPAN {then (day|week|month|quarter|year) ends [for] (SPAN|forever)}
//
// where SPAN is 90d, 90 days, 12 months or 7y, in the first place 90 labels too, and commas
// are free.
func (p *Policy) UnmarshalText(text []byte) error {
	words := strings.Fields(strings.ToLower(strings.ReplaceAll(string(text), ",", " ")))
	if len(words) == 1 && words[0] == "forever" {
		*p = Policy{Forever: true}
		return nil
	}
	r := policyReader{text: string(text), words: words}
	r.skip("keep")
	read := Policy{Keep: r.span()}
	for r.err == nil && len(r.words) > 0 {
		read.Then = append(read.Then, r.stage())
	}
	if r.err != nil {
		return r.err
	}
	age := read.Keep
	for i, s := range read.Then {
		switch {
		case s.Forever && i < len(read.Then)-1:
			return fmt.Errorf("retention %q: nothing can come behind %s ends that are kept forever", text, s.Ends)
		case !s.Forever && s.Until.Unit == "label":
			return fmt.Errorf("retention %q: %s ends are kept for a time, such as 7y: labels count in the first span alone", text, s.Ends)
		case !s.Forever && s.Until.Days() <= age.Days():
			return fmt.Errorf("retention %q: %s is not more than %s: every stage gives the age up to which it keeps", text, s.Until, age)
		}
		age = s.Until
	}
	*p = read
	return nil
}

// policyReader takes words from the front; the first fault stays in err.
type policyReader struct {
	text  string
	words []string
	err   error
}

func (r *policyReader) fault() {
	if r.err == nil {
		r.err = fmt.Errorf("%q is no retention: %s", r.text, policyHelp)
	}
}

func (r *policyReader) next() string {
	if len(r.words) == 0 {
		r.fault()
		return ""
	}
	w := r.words[0]
	r.words = r.words[1:]
	return w
}

func (r *policyReader) skip(word string) bool {
	if len(r.words) > 0 && r.words[0] == word {
		r.words = r.words[1:]
		return true
	}
	return false
}

func (r *policyReader) span() Span {
	m := spanForm.FindStringSubmatch(r.next())
	if m == nil {
		r.fault()
		return Span{}
	}
	unit := m[2]
	if unit == "" {
		unit = r.next()
	}
	n, err := strconv.Atoi(m[1])
	s := Span{n, spanUnits[unit]}
	if err != nil || n == 0 || s.Unit == "" {
		r.fault()
	}
	return s
}

func (r *policyReader) stage() (s Stage) {
	if !r.skip("then") {
		r.fault()
	}
	s.Ends = r.next()
	if !stageEnds[s.Ends] || !r.skip("ends") {
		r.fault()
	}
	r.skip("for")
	if s.Forever = r.skip("forever"); !s.Forever && r.err == nil {
		s.Until = r.span()
	}
	return s
}

// String is the policy as UnmarshalText reads it.
func (p Policy) String() string {
	if p.Forever {
		return "forever"
	}
	var b strings.Builder
	b.WriteString("keep " + p.Keep.String())
	for _, s := range p.Then {
		until := s.Until.String()
		if s.Forever {
			until = "forever"
		}
		b.WriteString(", then " + s.Ends + " ends for " + until)
	}
	return b.String()
}

// MarshalText gives String.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
