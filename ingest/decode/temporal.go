package decode

import (
	"errors"
	"math"
)

// Date and time texts, as MySQL prints them and as ISO 8601 has them.

var (
	errDate      = errors.New("not a date (2022-07-16)")
	errTimestamp = errors.New("not a date and time (2022-07-16 13:05:00.123456)")
	errZone      = errors.New("a timestamp's text needs a zone (Z or +08:00)")
	errNoZone    = errors.New("a date and time without zone has one in its text")
	errTime      = errors.New("not a time (-838:59:59.000000)")
	errFraction  = errors.New("more than microseconds")
	errTimeRange = errors.New("the time is out of range")
)

const (
	microsPerSecond = 1_000_000
	microsPerDay    = 86400 * microsPerSecond
)

// clock reads a text from left to right.
type clock struct {
	s  string
	ok bool
}

// number reads exactly n digits.
func (c *clock) number(n int) int {
	if len(c.s) < n || !allDigits(c.s[:n]) {
		c.ok = false
		return 0
	}
	v := 0
	for _, d := range []byte(c.s[:n]) {
		v = v*10 + int(d-'0')
	}
	c.s = c.s[n:]
	return v
}

// skip reads one of the bytes.
func (c *clock) skip(any string) {
	if c.s != "" {
		for _, b := range []byte(any) {
			if c.s[0] == b {
				c.s = c.s[1:]
				return
			}
		}
	}
	c.ok = false
}

// fraction reads an optional ".digits" as microseconds.
func (c *clock) fraction() (micros int64, err error) {
	if c.s == "" || c.s[0] != '.' {
		return 0, nil
	}
	i := 1
	for ; i < len(c.s) && c.s[i]-'0' <= 9; i++ {
		switch {
		case i <= 6:
			micros = micros*10 + int64(c.s[i]-'0')
		case c.s[i] != '0':
			err = errFraction
		}
	}
	if i == 1 {
		c.ok = false
	}
	for n := i; n <= 6; n++ {
		micros *= 10
	}
	c.s = c.s[i:]
	return micros, err
}

// civilDays gives the days from 1970-01-01 to a date of the proleptic
// Gregorian calendar.
func civilDays(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400 // year >= 0 here but for year 0 before March
	if year < 0 {
		era = (year - 399) / 400
	}
	yoe := year - era*400
	doy := (153*(month-3)+2)/5 + day - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return int64(era)*146097 + int64(doe) - 719468
}

var monthDays = [13]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// date reads YYYY-MM-DD. zero tells a date of MySQL that is none: with month
// or day 0, whatever the year.
func (c *clock) date() (days int64, zero bool) {
	year := c.number(4)
	c.skip("-")
	month := c.number(2)
	c.skip("-")
	day := c.number(2)
	if !c.ok {
		return 0, false
	}
	if month > 12 {
		c.ok = false
		return 0, false
	}
	last := monthDays[month]
	if month == 2 && (year%4 == 0 && year%100 != 0 || year%400 == 0) {
		last = 29
	}
	if month == 0 {
		last = 31
	}
	if day > last {
		c.ok = false
		return 0, false
	}
	if month == 0 || day == 0 {
		return 0, true
	}
	return civilDays(year, month, day), false
}

// parseDate reads YYYY-MM-DD, with the Z that Debezium's IsoDate appends.
func parseDate(s string) (days int64, zero bool, err error) {
	c := clock{s, true}
	days, zero = c.date()
	if !c.ok || c.s != "" && c.s != "Z" {
		return 0, false, errDate
	}
	return days, zero, nil
}

// plainTimestamp reads YYYY-MM-DD[T ]hh:mm:ss[.f][Z] with up to six digits f, which
// most are; of any other text, and of no date, ok is false.
func plainTimestamp(s string) (micros int64, ok bool) {
	if n := len(s); n > 0 && s[n-1] == 'Z' {
		s = s[:n-1]
	}
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != ' ' && s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	two := func(i int) int { // what is no digit makes it huge
		a, b := s[i]-'0', s[i+1]-'0'
		if a > 9 || b > 9 {
			return 1 << 20
		}
		return int(a)*10 + int(b)
	}
	year, month, day, hour, minute, second := two(0)*100+two(2), two(5), two(8), two(11), two(14), two(17)
	// Days up to 28 are in every month.
	if year > 9999 || month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	if s = s[19:]; s != "" {
		if s[0] != '.' || len(s) == 1 || len(s) > 7 {
			return 0, false
		}
		for i := 1; i < 7; i++ {
			micros *= 10
			if i < len(s) {
				if s[i]-'0' > 9 {
					return 0, false
				}
				micros += int64(s[i] - '0')
			}
		}
	}
	return micros + civilDays(year, month, day)*microsPerDay + int64(hour*3600+minute*60+second)*microsPerSecond, true
}

// parseTimestamp reads YYYY-MM-DD[T ]hh:mm[:ss[.f]] into microseconds since
// 1970. With zoned the text must end in Z or an offset, and the result is UTC;
// without, it may end in the Z of Debezium's IsoTimestamp, which means nothing.
func parseTimestamp(s string, zoned bool) (micros int64, zero bool, err error) {
	if micros, ok := plainTimestamp(s); ok {
		if zoned && s[len(s)-1] != 'Z' {
			return 0, false, errZone
		}
		return micros, false, nil
	}
	c := clock{s, true}
	days, zero := c.date()
	c.skip("T ")
	hour := c.number(2)
	c.skip(":")
	minute := c.number(2)
	second := 0
	var fraction int64
	if c.ok && c.s != "" && c.s[0] == ':' {
		c.skip(":")
		second = c.number(2)
		if fraction, err = c.fraction(); err != nil {
			return 0, false, err
		}
	}
	if !c.ok || hour > 23 || minute > 59 || second > 59 {
		return 0, false, errTimestamp
	}
	micros = days*microsPerDay + int64(hour*3600+minute*60+second)*microsPerSecond + fraction
	switch {
	case zero:
		return 0, true, nil
	case c.s == "Z":
		return micros, false, nil
	case c.s == "" && zoned:
		return 0, false, errZone
	case c.s == "":
		return micros, false, nil
	case !zoned:
		return 0, false, errNoZone
	}
	east := c.s[0] == '+'
	c.skip("+-")
	hour = c.number(2)
	if c.s != "" && c.s[0] == ':' {
		c.skip(":")
	}
	minute = c.number(2)
	if !c.ok || c.s != "" || hour > 18 || minute > 59 {
		return 0, false, errZone
	}
	offset := int64(hour*60+minute) * 60 * microsPerSecond
	if east {
		offset = -offset
	}
	return micros + offset, false, nil
}

// parseTime reads a TIME of MySQL, [-]h:mm:ss[.f] with up to 838 hours, into
// signed microseconds. The Z of Debezium's IsoTime is passed over.
func parseTime(s string) (micros int64, err error) {
	c := clock{s, true}
	neg := s != "" && s[0] == '-'
	if neg {
		c.s = c.s[1:]
	}
	n := 0
	for n < len(c.s) && n < 4 && c.s[n]-'0' <= 9 {
		n++
	}
	if n == 0 {
		return 0, errTime
	}
	hour := c.number(n)
	c.skip(":")
	minute := c.number(2)
	second := 0
	var fraction int64
	if c.ok && c.s != "" && c.s[0] == ':' {
		c.skip(":")
		second = c.number(2)
		if fraction, err = c.fraction(); err != nil {
			return 0, err
		}
	}
	if !c.ok || c.s != "" && c.s != "Z" || minute > 59 || second > 59 {
		return 0, errTime
	}
	micros = int64(hour*3600+minute*60+second)*microsPerSecond + fraction
	if neg {
		micros = -micros
	}
	return micros, nil
}

// A unit says what the integers of a time are.
type unit uint8

const (
	noUnit unit = iota // integers can't be read: nothing tells what they are
	seconds
	millis
	micros
	nanos
)

// inMicros converts without loss.
func (u unit) inMicros(n int64) (int64, error) {
	switch u {
	case seconds:
		if n > math.MaxInt64/microsPerSecond || n < math.MinInt64/microsPerSecond {
			return 0, errTimeRange
		}
		return n * microsPerSecond, nil
	case millis:
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, errTimeRange
		}
		return n * 1000, nil
	case nanos:
		if n%1000 != 0 {
			return 0, errFraction
		}
		return n / 1000, nil
	}
	return n, nil
}
