package parquet

import (
	"hash/maphash"
	"math/bits"
)

// A dictionary is tried on every column and given up where it does not pay:
// after so many values if half of them differ, at the end of the first page
// if that came out larger than plain, and when it outgrows these limits.
const (
	dictionaryTrial  = 1024
	dictionaryValues = 1 << 16
	dictionaryBytes  = 1 << 20
)

// dictionary numbers the distinct values of a column chunk in order of
// appearance. Strings in it belong to the rows being encoded.
type dictionary struct {
	slots []int32 // id+1, open addressing; a power of two
	mask  uint64
	ints  []int64
	strs  []string
	last  int     // the integer asked for before this one
	page  []int32 // the last page each value was seen in
	bytes int     // PLAIN size
}

var dictionarySeed = maphash.MakeSeed()

func (d *dictionary) len() int { return max(len(d.ints), len(d.strs)) }

func (d *dictionary) reset() {
	if d.slots == nil {
		d.grow(256)
	}
	clear(d.slots)
	clear(d.strs) // let go of the rows
	d.ints, d.strs, d.page, d.bytes, d.last = d.ints[:0], d.strs[:0], d.page[:0], 0, 0
}

func (d *dictionary) grow(size int) {
	d.slots = make([]int32, size)
	d.mask = uint64(size - 1)
	for i, v := range d.ints {
		d.place(mix(uint64(v)), int32(i+1))
	}
	for i, v := range d.strs {
		d.place(maphash.String(dictionarySeed, v), int32(i+1))
	}
}

func (d *dictionary) place(hash uint64, id int32) {
	for at := hash & d.mask; ; at = (at + 1) & d.mask {
		if d.slots[at] == 0 {
			d.slots[at] = id
			return
		}
	}
}

func mix(v uint64) uint64 {
	hi, lo := bits.Mul64(v^0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
	return hi ^ lo
}

// int gives a value's number.
func (d *dictionary) int(v int64, size int) int32 {
	if d.last < len(d.ints) && d.ints[d.last] == v {
		return int32(d.last)
	}
	hash := mix(uint64(v))
	at := hash & d.mask
	for ; d.slots[at] != 0; at = (at + 1) & d.mask {
		if id := d.slots[at] - 1; d.ints[id] == v {
			d.last = int(id)
			return id
		}
	}
	d.ints = append(d.ints, v)
	d.bytes += size
	return d.added(at)
}

// find gives the number of a string, or -1 and the place where add puts it.
func (d *dictionary) find(v string) (id int32, at uint64) {
	at = maphash.String(dictionarySeed, v) & d.mask
	for ; d.slots[at] != 0; at = (at + 1) & d.mask {
		if id := d.slots[at] - 1; d.strs[id] == v {
			return id, at
		}
	}
	return -1, at
}

func (d *dictionary) add(v string, at uint64) int32 {
	d.strs = append(d.strs, v)
	d.bytes += 4 + len(v)
	return d.added(at)
}

func (d *dictionary) added(at uint64) int32 {
	d.page = append(d.page, -1)
	n := d.len()
	d.slots[at] = int32(n)
	if 2*n > len(d.slots) {
		d.grow(4 * len(d.slots))
	}
	return int32(n - 1)
}

// full tells that the dictionary must not grow on.
func (d *dictionary) full() bool { return len(d.page) > dictionaryValues || d.bytes > dictionaryBytes }
