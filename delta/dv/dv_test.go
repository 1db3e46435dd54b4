package dv_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta/dv"
	"pgregory.net/rapid"
)

func rowsOf(b *dv.Bitmap) []uint32 { return slices.Collect(b.Rows()) }

// The path example of the Delta protocol, "Deletion Vectors", and the inline
// vector of delta-kernel-rs tests (kernel/src/actions/deletion_vector.rs).
func TestProtocolExamples(t *testing.T) {
	b, err := dv.Inline("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 44)
	if err != nil || !slices.Equal(rowsOf(b), []uint32{3, 4, 7, 11, 18, 29}) {
		t.Errorf("inline example: %v, %v", b, err)
	}
	key, err := dv.KeyOfPath("ab^-aqEH.-t@S}K{vb[*k^")
	if err != nil || key != "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin" {
		t.Errorf("path example: %q, %v", key, err)
	}
	if got := dv.PathOfID(uuid.MustParse("d2c639aa-8816-431a-aaf6-d3fe2512ff61")); got != "^-aqEH.-t@S}K{vb[*k^" {
		t.Errorf("path of an id %s", got)
	}
	// The test vector of ZeroMQ RFC 32.
	raw := []byte{0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B}
	if got, err := dv.DecodeZ85("HelloWorld"); err != nil || !bytes.Equal(got, raw) || dv.EncodeZ85(raw) != "HelloWorld" {
		t.Errorf("Z85 %x, %v", got, err)
	}
}

type descriptor struct {
	StorageType    string `json:"storageType"`
	PathOrInlineDv string `json:"pathOrInlineDv"`
	Offset         int32  `json:"offset"`
	SizeInBytes    int32  `json:"sizeInBytes"`
	Cardinality    int64  `json:"cardinality"`
}

// Every vector that the commits of the test tables name, written by Spark,
// Kernel and others.
func TestVectorsOfOtherWriters(t *testing.T) {
	root := filepath.Join(sharedDir(t), "delta-tables")
	read := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") || filepath.Base(filepath.Dir(path)) != "_delta_log" {
			return err
		}
		table := filepath.Dir(filepath.Dir(path))
		for _, d := range descriptors(t, path) {
			b, err := load(table, d)
			if errors.Is(err, fs.ErrNotExist) {
				continue // some tables are kept without their files
			}
			if err != nil {
				t.Errorf("%s: %+v: %v", path, d, err)
				continue
			}
			if b.Cardinality() != d.Cardinality {
				t.Errorf("%s: %+v: %d rows", path, d, b.Cardinality())
			}
			again, err := dv.Unmarshal(b.Marshal())
			if err != nil || !again.Equal(b) {
				t.Errorf("%s: %+v: written again it differs, %v", path, d, err)
			}
			read[d.StorageType]++
		}
		return nil
	})
	if err != nil {
		t.Skipf("no Delta test tables: %v", err)
	}
	t.Logf("read %v", read)
	if read["u"] < 50 || read["i"] < 1 {
		t.Errorf("read %v: too few, is the test data whole?", read)
	}
}

func load(table string, d descriptor) (*dv.Bitmap, error) {
	switch d.StorageType {
	case "i":
		return dv.Inline(d.PathOrInlineDv, d.SizeInBytes)
	case "p":
		return nil, fs.ErrNotExist // paths of another machine
	}
	key, err := dv.KeyOfPath(d.PathOrInlineDv)
	if err != nil {
		return nil, err
	}
	file, err := os.ReadFile(filepath.Join(table, filepath.FromSlash(key)))
	if err != nil {
		return nil, err
	}
	return dv.Read(file, d.Offset, d.SizeInBytes)
}

func descriptors(t *testing.T, commit string) (found []descriptor) {
	data, err := os.ReadFile(commit)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		type file struct {
			DeletionVector *descriptor `json:"deletionVector"`
		}
		var action struct{ Add, Remove *file }
		if json.Unmarshal(lines.Bytes(), &action) != nil {
			continue
		}
		for _, f := range []*file{action.Add, action.Remove} {
			if f != nil && f.DeletionVector != nil {
				found = append(found, *f.DeletionVector)
			}
		}
	}
	return found
}

func sharedDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("GSCD_TESTDATA"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(filepath.Dir(dir), "shared")
		}
	}
	t.Skip("no go.mod above: set GSCD_TESTDATA")
	return ""
}

// rowSet draws sparse rows, dense stretches and the limits.
var rowSet = rapid.Custom(func(t *rapid.T) []uint32 {
	rows := rapid.SliceOfN(rapid.OneOf(rapid.Uint32Range(0, 100), rapid.Uint32(), rapid.SampledFrom([]uint32{0, 65535, 65536, 1<<32 - 1})), 0, 50).Draw(t, "rows")
	if rapid.Bool().Draw(t, "dense") {
		from, step := rapid.Uint32Range(0, 1<<20).Draw(t, "from"), rapid.Uint32Range(1, 3).Draw(t, "step")
		for i := range rapid.Uint32Range(0, 9000).Draw(t, "length") {
			rows = append(rows, from+i*step)
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
})

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rowSet.Draw(t, "set")
		b := dv.New()
		b.AddMany(rows)
		data := b.Marshal()
		got, err := dv.Unmarshal(data)
		if err != nil || !slices.Equal(rowsOf(got), rows) || got.Cardinality() != int64(len(rows)) {
			t.Fatalf("%d rows come back as %d, %v", len(rows), got.Cardinality(), err)
		}
	})
}

func TestPackedFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p dv.Packer
		type packed struct {
			rows         []uint32
			offset, size int32
		}
		var all []packed
		for range rapid.IntRange(1, 5).Draw(t, "vectors") {
			rows := rowSet.Draw(t, "set")
			offset, size, n, err := p.Append(dv.Of(rows...))
			if err != nil || n != int64(len(rows)) {
				t.Fatalf("append: %d rows of %d, %v", n, len(rows), err)
			}
			all = append(all, packed{rows, offset, size})
		}
		file := p.Bytes()
		if file[0] != 1 || all[0].offset != 1 {
			t.Fatalf("the file begins with %d, its first vector at %d", file[0], all[0].offset)
		}
		for _, v := range all {
			b, err := dv.Read(file, v.offset, v.size)
			if err != nil || !slices.Equal(rowsOf(b), v.rows) {
				t.Fatalf("vector at %d: %v", v.offset, err)
			}
			block := file[v.offset : int64(v.offset)+dv.BlockSize(v.size)]
			if b, err := dv.ReadBlock(block, v.size); err != nil || !slices.Equal(rowsOf(b), v.rows) {
				t.Fatalf("block at %d: %v", v.offset, err)
			}
			for _, wrong := range [][2]int32{{v.offset + 1, v.size}, {v.offset, v.size + 1}, {v.offset, v.size - 1}, {0, v.size}, {-1, v.size}, {v.offset, -1}, {1 << 30, 1 << 30}} {
				if _, err := dv.Read(file, wrong[0], wrong[1]); !errors.Is(err, dv.ErrCorrupt) {
					t.Fatalf("%d bytes at %d: %v", wrong[1], wrong[0], err)
				}
			}
			spoilt := bytes.Clone(file)
			spoilt[int(v.offset)+4+rapid.IntRange(0, int(v.size)-1).Draw(t, "byte")] ^= 1
			if _, err := dv.Read(spoilt, v.offset, v.size); !errors.Is(err, dv.ErrCorrupt) {
				t.Fatalf("a flipped bit: %v", err)
			}
		}
	})
}

// Each byte of a vector in a file has a checksum, or is its size: another one is an error,
// never another set of rows.
func TestOtherBytesInAFileAreTold(t *testing.T) {
	b := dv.Of(1, 2, 70_000, 3_000_000)
	b.AddRange(100_000, 130_000)
	var p dv.Packer
	offset, size, _, err := p.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	file := p.Bytes()
	if got, err := dv.Read(file, offset, size); err != nil || !got.Equal(b) {
		t.Fatal(err)
	}
	for i := int(offset); i < len(file); i++ {
		for bit := range 8 {
			damaged := bytes.Clone(file)
			damaged[i] ^= 1 << bit
			if got, err := dv.Read(damaged, offset, size); !errors.Is(err, dv.ErrCorrupt) {
				t.Fatalf("byte %d, bit %d: %v, %v", i, bit, got, err)
			}
		}
	}
}

func TestSetOperations(t *testing.T) {
	a := dv.Of(1, 2, 70_000)
	b := a.Clone()
	b.Add(5)
	b.AddRange(10, 13)
	if got := rowsOf(a); !slices.Equal(got, []uint32{1, 2, 70_000}) {
		t.Errorf("a clone is shared: %v", got)
	}
	if !b.Contains(5) || b.Contains(6) {
		t.Error("contains")
	}
	if n := b.CountRange(2, 12); n != 4 {
		t.Errorf("%d rows from 2 to 12", n)
	}
	fresh := b.Clone()
	fresh.AndNot(a)
	if got := rowsOf(fresh); !slices.Equal(got, []uint32{5, 10, 11, 12}) {
		t.Errorf("new rows %v", got)
	}
	joined := dv.Of(3)
	if err := joined.OrShifted(a, 100_000); err != nil || !slices.Equal(rowsOf(joined), []uint32{3, 100_001, 100_002, 170_000}) {
		t.Errorf("shifted %v, %v", rowsOf(joined), err)
	}
	if err := joined.OrShifted(dv.Of(1<<31), 1<<31); err == nil || joined.Cardinality() != 4 {
		t.Errorf("a shift past 2^32: %v", err)
	}
	if err := joined.OrShifted(dv.New(), -5); err != nil {
		t.Error(err)
	}
	if row, ok := joined.Max(); row != 170_000 || !ok {
		t.Errorf("max %d", row)
	}
	if _, ok := dv.New().Max(); ok || !dv.New().IsEmpty() {
		t.Error("an empty bitmap has a row")
	}
	a.Or(b)
	if !a.Equal(b) {
		t.Errorf("union %v", rowsOf(a))
	}
}

// portable makes a 64-bit form with one bucket around 32-bit bytes.
func portable(words ...any) []byte {
	data := binary.LittleEndian.AppendUint32(nil, 1681511377)
	data = binary.LittleEndian.AppendUint64(data, 1)
	data = binary.LittleEndian.AppendUint32(data, 0)
	for _, w := range words {
		switch w := w.(type) {
		case uint32:
			data = binary.LittleEndian.AppendUint32(data, w)
		case int:
			data = binary.LittleEndian.AppendUint16(data, uint16(w))
		case []byte:
			data = append(data, w...)
		}
	}
	return data
}

const runs = uint32(12347) // one container

func TestRunContainers(t *testing.T) {
	b, err := dv.Unmarshal(portable(runs, []byte{1}, 2, 6, 2, 5, 2, 100, 3))
	if want := []uint32{131077, 131078, 131079, 131172, 131173, 131174, 131175}; err != nil || !slices.Equal(rowsOf(b), want) {
		t.Errorf("runs: %v, %v", b, err)
	}
	// Trino leaves bytes behind it that it has reserved and not filled.
	b, err = dv.Unmarshal(append(dv.Of(1, 2, 3).Marshal(), 0, 0, 0, 0))
	if err != nil || !b.Equal(dv.Of(1, 2, 3)) {
		t.Errorf("zeros behind it: %v, %v", b, err)
	}
	// Runs that touch are odd but mean something.
	b, err = dv.Unmarshal(portable(runs, []byte{1}, 0, 3, 2, 1, 1, 3, 1))
	if err != nil || !slices.Equal(rowsOf(b), []uint32{1, 2, 3, 4}) || !b.Equal(dv.Of(1, 2, 3, 4)) {
		t.Errorf("runs that touch: %v, %v", b, err)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	good := dv.Of(1, 2, 3).Marshal()
	noRuns := uint32(12346)
	for name, data := range map[string][]byte{
		"nothing":                 nil,
		"another magic":           append([]byte{1}, good[1:]...),
		"cut off":                 good[:len(good)-1],
		"too long":                append(bytes.Clone(good), 0, 0, 0, 1),
		"many buckets":            append(binary.LittleEndian.AppendUint64(bytes.Clone(good[:4]), 1<<60), good[12:]...),
		"a bucket past 2^32":      append(binary.LittleEndian.AppendUint32(bytes.Clone(good[:12]), 1), good[16:]...),
		"an unknown cookie":       portable(uint32(99)),
		"too many containers":     portable(noRuns, uint32(1<<16+1)),
		"an array out of order":   portable(noRuns, uint32(1), 0, 1, uint32(16), 5, 5),
		"containers out of order": portable(noRuns, uint32(2), 1, 0, 1, 0, uint32(24), uint32(26), 5, 5),
		"a bitmap's wrong count":  portable(noRuns, uint32(1), 0, 5000, uint32(16), make([]byte, 8192)),
		"runs that overlap":       portable(runs, []byte{1}, 0, 3, 2, 1, 2, 3, 1),
		"a run past the end":      portable(runs, []byte{1}, 0, 3, 1, 65535, 1),
		"no run":                  portable(runs, []byte{1}, 0, 0, 0),
	} {
		if b, err := dv.Unmarshal(data); !errors.Is(err, dv.ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
	for _, path := range []string{"", "short", strings.Repeat("~", 20), "../" + strings.Repeat("0", 20), "/a" + strings.Repeat("0", 20)} {
		if _, err := dv.KeyOfPath(path); !errors.Is(err, dv.ErrCorrupt) {
			t.Errorf("path %q: %v", path, err)
		}
	}
	for _, size := range []int32{-1, 0, 40, 45, 1000} {
		if _, err := dv.Inline("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", size); !errors.Is(err, dv.ErrCorrupt) {
			t.Errorf("inline of %d bytes: %v", size, err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(dv.New().Marshal())
	f.Add(dv.Of(0, 1, 70_000, 1<<32-1).Marshal())
	f.Add(portable(runs, []byte{1}, 2, 6, 2, 5, 2, 100, 3))
	dense := dv.New()
	dense.AddRange(0, 5000)
	f.Add(dense.Marshal())
	f.Fuzz(func(t *testing.T, data []byte) {
		alloctest.Within(t, len(data), 64, 1<<20, func() { _, _ = dv.Unmarshal(data) })
		b, err := dv.Unmarshal(data)
		if err != nil {
			if !errors.Is(err, dv.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		n, last := int64(0), int64(-1)
		for row := range b.Rows() {
			if int64(row) <= last || !b.Contains(row) {
				t.Fatalf("row %d after %d", row, last)
			}
			last = int64(row)
			if n++; n > 1<<21 {
				return
			}
		}
		if n != b.Cardinality() {
			t.Fatalf("%d rows, cardinality %d", n, b.Cardinality())
		}
		if again, err := dv.Unmarshal(b.Marshal()); err != nil || !again.Equal(b) {
			t.Fatalf("written again it differs, %v", err)
		}
	})
}

// The two ways to a vector of a descriptor: in its text, and as a block of a file.
func FuzzDescriptor(f *testing.F) {
	var p dv.Packer
	offset, size, _, err := p.Append(dv.Of(1, 5, 70_000))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(p.Bytes()), offset, size)
	f.Add(dv.EncodeZ85(dv.Of(1, 2, 3).Marshal()), int32(0), int32(len(dv.Of(1, 2, 3).Marshal())))
	f.Fuzz(func(t *testing.T, text string, offset, size int32) {
		alloctest.Within(t, len(text), 64, 1<<20, func() {
			for _, err := range []error{
				fault(dv.Inline(text, size)), fault(dv.Read([]byte(text), offset, size)), fault(dv.ReadBlock([]byte(text), size)),
				fault(dv.DecodeZ85(text)), fault(dv.KeyOfPath(text)),
			} {
				if err != nil && !errors.Is(err, dv.ErrCorrupt) {
					t.Fatal(err)
				}
			}
		})
		// Some writers pad the last group with #, so that two texts may stand for the same bytes.
		if data, err := dv.DecodeZ85(text); err == nil {
			if back, err := dv.DecodeZ85(dv.EncodeZ85(data)); err != nil || !bytes.Equal(back, data) {
				t.Fatalf("%q is %x, and that came back as %x, %v", text, data, back, err)
			}
		}
	})
}

func fault(_ any, err error) error { return err }

func BenchmarkUnmarshal(b *testing.B) {
	set := dv.New()
	for row := uint32(0); row < 10_000_000; row += 10 {
		set.Add(row)
	}
	data := set.Marshal()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := dv.Unmarshal(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	set := dv.New()
	for row := uint32(0); row < 10_000_000; row += 10 {
		set.Add(row)
	}
	b.SetBytes(int64(len(set.Marshal())))
	for b.Loop() {
		var p dv.Packer
		if _, _, _, err := p.Append(set); err != nil {
			b.Fatal(err)
		}
	}
}

// A last group of fewer than 4 bytes, as the Rust kernel writes it; no other group
// stands for more than 4 bytes.
func TestShortGroupsOfZ85(t *testing.T) {
	for text, want := range map[string]string{
		"##093": "\x03\x00\x00\x00", "0rr91##093": "\x01\x00\x00\x00\x03\x00\x00\x00", "###2&": "\xf2\x00\x00\x00", "#0rr9": "\x03\x03\x03\x00",
	} {
		got, err := dv.DecodeZ85(text)
		if err != nil || string(got) != want {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
	for _, text := range []string{"##09300000", "#####", "###00%", "%nSc1", "####0", "###99"} {
		if got, err := dv.DecodeZ85(text); !errors.Is(err, dv.ErrCorrupt) {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
}
