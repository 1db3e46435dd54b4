package binlog

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/gscd-io/gscd/capture/event"
)

// temporal writes dates and times as the server prints them; a timestamp in UTC.
func (s *slot) temporal(col *column, data []byte, out *event.Cell) (n int, err error) {
	dst := s.scratch
	at := len(dst)
	fraction := (col.length + 1) / 2
	switch col.typ {
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE:
		n = 3
		v := littleEndian(data[:3])
		dst = appendDate(dst, v>>9, v>>5&15, v&31)
	case mysql.MYSQL_TYPE_TIME: // before 5.6.4: hours, minutes, seconds as one number
		n = 3
		v := int64(littleEndian(data[:3])<<40) >> 40
		dst, v = appendSign(dst, v)
		dst = appendClock(dst, uint64(v)/10000, uint64(v)/100%100, uint64(v)%100)
	case mysql.MYSQL_TYPE_DATETIME:
		n = 8
		v := binary.LittleEndian.Uint64(data)
		day, clock := v/1000000, v%1000000
		if day > 99991231 {
			return 0, corrupt("datetime %d", v)
		}
		dst = append(appendDate(dst, day/10000, day/100%100, day%100), ' ')
		dst = appendClock(dst, clock/10000, clock/100%100, clock%100)
	case mysql.MYSQL_TYPE_TIMESTAMP:
		n = 4
		dst = appendInstant(dst, binary.LittleEndian.Uint32(data))
	case mysql.MYSQL_TYPE_TIMESTAMP2:
		n = 4 + fraction
		if len(data) < n {
			return 0, errShort
		}
		dst = appendInstant(dst, binary.BigEndian.Uint32(data))
		dst = appendFraction(dst, int64(bigEndian(data[4:n])), col.length)
	case mysql.MYSQL_TYPE_DATETIME2:
		n = 5 + fraction
		if len(data) < n {
			return 0, errShort
		}
		v := bigEndian(data[:5])
		if v < 1<<39 {
			return 0, corrupt("a negative datetime")
		}
		v -= 1 << 39
		month := v >> 22
		dst = append(appendDate(dst, month/13, month%13, v>>17&31), ' ')
		dst = appendClock(dst, v>>12&31, v>>6&63, v&63)
		dst = appendFraction(dst, int64(bigEndian(data[5:n])), col.length)
	case mysql.MYSQL_TYPE_TIME2:
		n = 3 + fraction
		if len(data) < n {
			return 0, errShort
		}
		// One integer with the fraction at its end: a negative one is its complement.
		v := int64(bigEndian(data[:n])) - 1<<(23+8*fraction)
		dst, v = appendSign(dst, v)
		hms := uint64(v) >> (8 * fraction)
		dst = appendClock(dst, hms>>12&1023, hms>>6&63, hms&63)
		dst = appendFraction(dst, v&(1<<(8*fraction)-1), col.length)
	default:
		return 0, fmt.Errorf("a column of type %d %w", col.typ, ErrUnsupported)
	}
	s.scratch = dst
	out.Kind, out.Bytes = event.Text, dst[at:len(dst):len(dst)]
	return n, nil
}

func appendSign(dst []byte, v int64) ([]byte, int64) {
	if v < 0 {
		return append(dst, '-'), -v
	}
	return dst, v
}

func appendDate(dst []byte, year, month, day uint64) []byte {
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, month, 2), '-')
	return appendPadded(dst, day, 2)
}

func appendClock(dst []byte, hour, minute, second uint64) []byte {
	width := 2
	if hour > 99 {
		width = 3
	}
	dst = append(appendPadded(dst, hour, width), ':')
	dst = append(appendPadded(dst, minute, 2), ':')
	return appendPadded(dst, second, 2)
}

// appendInstant writes seconds since 1970; 0 is the zero date.
func appendInstant(dst []byte, seconds uint32) []byte {
	if seconds == 0 {
		return append(dst, "0000-00-00 00:00:00"...)
	}
	return time.Unix(int64(seconds), 0).UTC().AppendFormat(dst, time.DateTime)
}

// appendFraction writes the part of a second, which is stored with an even number of
// digits.
func appendFraction(dst []byte, v int64, digits int) []byte {
	if digits == 0 {
		return dst
	}
	if digits%2 == 1 {
		v /= 10
	}
	return appendPadded(append(dst, '.'), uint64(v), digits)
}
