package write

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"

	"github.com/gscd-io/gscd/delta/spill"
)

// fingerprint stands for a row: the beginnings of the sums of its key and of its other
// cells, 128 bits each, and where it is.
type fingerprint struct {
	key, rest [16]byte
	at        uint64
}

const fingerprintBytes = 40

func (f *fingerprint) compare(g *fingerprint) int {
	if c := bytes.Compare(f.key[:], g.key[:]); c != 0 {
		return c
	}
	return cmp.Compare(f.at, g.at)
}

// shareBits is how many bits of a key say in which share of the fingerprints it is, once
// they are more than fit into memory.
const (
	shareBits = 6
	shares    = 1 << shareBits
)

// fingerprints are those of many rows: in memory while they fit, then in files, one for
// each share of the keys. Not safe for concurrent use.
type fingerprints struct {
	dir    *spill.Dir
	most   int // that stay in memory
	memory []fingerprint
	files  []*shareFile // nil while all are in memory
	raw    [fingerprintBytes]byte
}

type shareFile struct {
	file *os.File
	out  *bufio.Writer
	n    int
}

func (s *fingerprints) add(f fingerprint) error {
	if s.files == nil {
		if len(s.memory) < s.most {
			s.memory = append(s.memory, f)
			return nil
		}
		if err := s.spill(); err != nil {
			return err
		}
	}
	return s.write(&f)
}

// spill moves all to files.
func (s *fingerprints) spill() error {
	s.files = make([]*shareFile, shares)
	for i := range s.files {
		file, err := s.dir.TempFile()
		if err != nil {
			return fmt.Errorf("spill to disk: %w", err)
		}
		s.files[i] = &shareFile{file: file, out: bufio.NewWriterSize(file, 16<<10)}
	}
	for i := range s.memory {
		if err := s.write(&s.memory[i]); err != nil {
			return err
		}
	}
	s.memory = nil
	return nil
}

func (s *fingerprints) write(f *fingerprint) error {
	copy(s.raw[:], f.key[:])
	copy(s.raw[16:], f.rest[:])
	binary.BigEndian.PutUint64(s.raw[32:], f.at)
	share := s.files[f.key[0]>>(8-shareBits)]
	share.n++
	if _, err := share.out.Write(s.raw[:]); err != nil {
		return fmt.Errorf("spill to disk: %w", err)
	}
	return nil
}

// shares gives how many shares there are to go through.
func (s *fingerprints) shares() int {
	if s.files == nil {
		return 1
	}
	return shares
}

// share gives the fingerprints of a share; sorted also puts them in order, for as long as
// they are in memory.
func (s *fingerprints) share(i int, sorted bool) ([]fingerprint, error) {
	list := s.memory
	if s.files != nil {
		f := s.files[i]
		if err := f.out.Flush(); err != nil {
			return nil, fmt.Errorf("spill to disk: %w", err)
		}
		if _, err := f.file.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("spill to disk: %w", err)
		}
		in := bufio.NewReaderSize(f.file, 256<<10)
		list = make([]fingerprint, f.n)
		for n := range list {
			if _, err := io.ReadFull(in, s.raw[:]); err != nil {
				return nil, fmt.Errorf("spill to disk: read %s: %w", f.file.Name(), err)
			}
			copy(list[n].key[:], s.raw[:])
			copy(list[n].rest[:], s.raw[16:])
			list[n].at = binary.BigEndian.Uint64(s.raw[32:])
		}
	}
	if sorted {
		slices.SortFunc(list, func(a, b fingerprint) int { return a.compare(&b) })
	}
	return list, nil
}

// close gives up the files; their folder goes with the Dir.
func (s *fingerprints) close() error {
	var faults []error
	for _, f := range s.files {
		if f != nil {
			faults = append(faults, f.file.Close())
		}
	}
	s.files, s.memory = nil, nil
	return errors.Join(faults...)
}

// keyTable finds sorted fingerprints by key.
type keyTable struct {
	list  []fingerprint
	from  []uint32 // by the first bits of the key, behind those that all have alike
	skip  int
	width int
}

func newKeyTable(list []fingerprint, skip int) *keyTable {
	t := &keyTable{list: list, skip: skip, width: max(1, bits.Len(uint(len(list)))-2)}
	t.from = make([]uint32, 1<<t.width+1)
	for i := range list {
		t.from[t.bucket(&list[i].key)+1]++
	}
	for b := range 1 << t.width {
		t.from[b+1] += t.from[b]
	}
	return t
}

func (t *keyTable) bucket(key *[16]byte) uint64 {
	return binary.BigEndian.Uint64(key[:8]) << t.skip >> (64 - t.width)
}

// find gives the fingerprint of a key, nil where there is none.
func (t *keyTable) find(key *[16]byte) *fingerprint {
	b := t.bucket(key)
	for i := t.from[b]; i < t.from[b+1]; i++ {
		if t.list[i].key == *key {
			return &t.list[i]
		}
	}
	return nil
}
