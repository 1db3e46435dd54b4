package binlog

import (
	"strconv"

	"github.com/gscd-io/gscd/capture/event"
)

// decimalBytes is how many bytes 0 to 9 digits have.
var decimalBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

const groupDigits = 9

// decimal writes a decimal with all its digits: groups of nine in four bytes, big-endian,
// what is left over at both ends in fewer; the first bit is the sign, and all bits of a
// negative number are turned.
func (s *slot) decimal(data []byte, precision, scale int, out *event.Cell) (int, error) {
	whole := precision - scale
	n := whole/groupDigits*4 + decimalBytes[whole%groupDigits] + scale/groupDigits*4 + decimalBytes[scale%groupDigits]
	if len(data) < n {
		return 0, errShort
	}
	dst := s.scratch
	at := len(dst)
	if n == 0 {
		dst = append(dst, '0')
	} else {
		var turn byte
		if data[0]&0x80 == 0 {
			turn = 0xff
			dst = append(dst, '-')
		}
		first := byte(0x80)
		pos := 0
		group := func(digits int) uint64 {
			var v uint64
			for range decimalBytes[digits] {
				v = v<<8 | uint64(data[pos]^turn^first)
				first = 0
				pos++
			}
			return v
		}
		lead := true
		put := func(digits int) {
			v := group(digits)
			switch {
			case !lead:
				dst = appendPadded(dst, v, digits)
			case v != 0:
				dst = strconv.AppendUint(dst, v, 10)
				lead = false
			}
		}
		put(whole % groupDigits)
		for range whole / groupDigits {
			put(groupDigits)
		}
		if lead {
			dst = append(dst, '0')
		}
		if scale > 0 {
			lead = false
			dst = append(dst, '.')
			for range scale / groupDigits {
				put(groupDigits)
			}
			if scale%groupDigits > 0 {
				put(scale % groupDigits)
			}
		}
	}
	s.scratch = dst
	out.Kind, out.Bytes = event.Text, dst[at:len(dst):len(dst)]
	return n, nil
}

// appendPadded writes a number with zeros in front.
func appendPadded(dst []byte, v uint64, digits int) []byte {
	at := len(dst)
	for range digits {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; v > 0 && i >= at; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}
