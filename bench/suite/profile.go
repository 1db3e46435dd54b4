package suite

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// errProfile is wrapped by the error about bytes that are no profile.
var errProfile = errors.New("not a profile of pprof")

// mostFunctions is how many functions a profile in words has.
const mostFunctions = 60

// profileText puts a profile file of pprof into words beside it: the functions in which
// most was spent, alone and with what they call. It gives the name of the text.
func profileText(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	text, err := profileTop(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	to := strings.TrimSuffix(name, ".pprof") + ".txt"
	return to, os.WriteFile(to, text, 0o644)
}

// spent is what a function took: alone, and with what it called.
type spent struct {
	name      string
	flat, all int64
}

// profileTop gives the functions of a profile, the dearest first.
func profileTop(data []byte) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProfile, err)
	}
	raw, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProfile, err)
	}
	p, err := parseProfile(raw)
	if err != nil {
		return nil, err
	}
	// Of the kinds of values the second is nanoseconds or bytes.
	at := min(1, len(p.kinds)-1)
	total, by := int64(0), map[string]*spent{}
	for _, s := range p.samples {
		if at < 0 || at >= len(s.values) {
			return nil, fmt.Errorf("%w: a sample has %d values", errProfile, len(s.values))
		}
		v := s.values[at]
		total += v
		seen := map[string]bool{}
		for depth, location := range s.locations {
			for line, function := range p.locations[location] {
				name := p.functions[function]
				f := by[name]
				if f == nil {
					f = &spent{name: name}
					by[name] = f
				}
				if depth == 0 && line == 0 {
					f.flat += v
				}
				if !seen[name] {
					seen[name] = true
					f.all += v
				}
			}
		}
	}
	list := make([]*spent, 0, len(by))
	for _, f := range by {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *spent) int {
		return cmp.Or(cmp.Compare(b.flat, a.flat), cmp.Compare(b.all, a.all), cmp.Compare(a.name, b.name))
	})
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s: %s in all\n%12s %7s %12s %7s  function\n", p.kinds[at].name, p.kinds[at].show(total), "alone", "", "with callees", "")
	for _, f := range list[:min(len(list), mostFunctions)] {
		share := func(v int64) float64 { return 100 * float64(v) / float64(max(1, total)) }
		fmt.Fprintf(&out, "%12s %6.2f%% %12s %6.2f%%  %s\n", p.kinds[at].show(f.flat), share(f.flat), p.kinds[at].show(f.all), share(f.all), f.name)
	}
	return out.Bytes(), nil
}

// kind is a kind of value: cpu in nanoseconds, alloc_space in bytes.
type kind struct{ name, unit string }

func (k kind) show(v int64) string {
	switch k.unit {
	case "nanoseconds":
		return fmt.Sprintf("%.2fs", float64(v)/1e9)
	case "bytes":
		return fmt.Sprintf("%.2fMB", float64(v)/(1<<20))
	}
	return fmt.Sprint(v)
}

type sample struct{ locations, values []int64 }

// profile is what is read of one: functions by location, the innermost first.
type profile struct {
	kinds     []kind
	samples   []sample
	locations map[int64][]int64
	functions map[int64]string
}

// parseProfile reads the protocol buffers of a profile: samples, places and names.
func parseProfile(raw []byte) (*profile, error) {
	p := &profile{locations: map[int64][]int64{}, functions: map[int64]string{}}
	var texts []string
	var kinds [][2]int64
	names := map[int64]int64{}
	err := fields(raw, func(field int, n int64, data []byte) error {
		switch field {
		case 1: // sample_type
			var k [2]int64
			err := fields(data, func(field int, n int64, _ []byte) error {
				if field == 1 || field == 2 {
					k[field-1] = n
				}
				return nil
			})
			kinds = append(kinds, k)
			return err
		case 2: // sample
			var s sample
			err := fields(data, func(field int, n int64, data []byte) error {
				var err error
				switch field {
				case 1:
					s.locations, err = numbers(s.locations, n, data)
				case 2:
					s.values, err = numbers(s.values, n, data)
				}
				return err
			})
			p.samples = append(p.samples, s)
			return err
		case 4: // location
			var id int64
			var functions []int64
			err := fields(data, func(field int, n int64, data []byte) error {
				switch field {
				case 1:
					id = n
				case 4:
					return fields(data, func(field int, n int64, _ []byte) error {
						if field == 1 {
							functions = append(functions, n)
						}
						return nil
					})
				}
				return nil
			})
			p.locations[id] = functions
			return err
		case 5: // function
			var id, name int64
			err := fields(data, func(field int, n int64, _ []byte) error {
				switch field {
				case 1:
					id = n
				case 2:
					name = n
				}
				return nil
			})
			names[id] = name
			return err
		case 6: // string_table
			texts = append(texts, string(data))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	text := func(i int64) string {
		if i < 0 || i >= int64(len(texts)) {
			return "?"
		}
		return texts[i]
	}
	for _, k := range kinds {
		p.kinds = append(p.kinds, kind{text(k[0]), text(k[1])})
	}
	for id, name := range names {
		p.functions[id] = text(name)
	}
	if len(p.kinds) == 0 {
		return nil, fmt.Errorf("%w: it says nothing of its values", errProfile)
	}
	return p, nil
}

// fields calls each for the fields of a message: n for a number, data for the rest.
func fields(raw []byte, each func(field int, n int64, data []byte) error) error {
	for len(raw) > 0 {
		tag, size := binary.Uvarint(raw)
		if size <= 0 {
			return errProfile
		}
		raw = raw[size:]
		var n uint64
		var data []byte
		switch tag & 7 {
		case 0:
			if n, size = binary.Uvarint(raw); size <= 0 {
				return errProfile
			}
			raw = raw[size:]
		case 1, 5:
			size = 8
			if tag&7 == 5 {
				size = 4
			}
			if len(raw) < size {
				return errProfile
			}
			raw = raw[size:]
		case 2:
			if n, size = binary.Uvarint(raw); size <= 0 || n > uint64(len(raw)-size) {
				return errProfile
			}
			data = raw[size : size+int(n)]
			raw = raw[size+int(n):]
		default:
			return errProfile
		}
		if err := each(int(tag>>3), int64(n), data); err != nil {
			return err
		}
	}
	return nil
}

// numbers adds a number, or several that are packed.
func numbers(list []int64, n int64, packed []byte) ([]int64, error) {
	if packed == nil {
		return append(list, n), nil
	}
	for len(packed) > 0 {
		v, size := binary.Uvarint(packed)
		if size <= 0 {
			return nil, errProfile
		}
		list = append(list, int64(v))
		packed = packed[size:]
	}
	return list, nil
}
