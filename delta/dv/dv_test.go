package dv

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var p Packer
	type placed struct {
		want         []uint32
		offset, size int32
	}
	var all []placed
	for n := range 60 {
		set := map[uint32]bool{}
		for range n * n {
			switch n % 3 {
			case 0:
				set[rng.Uint32N(200_000)] = true
			case 1:
				set[rng.Uint32()] = true
			default:
				set[uint32(len(set))] = true // a run
			}
		}
		b := New()
		want := make([]uint32, 0, len(set))
		for r := range set {
			b.Add(r)
			want = append(want, r)
		}
		slices.Sort(want)
		offset, size, cardinality, err := p.Append(b)
		if err != nil {
			t.Fatal(err)
		}
		if cardinality != int64(len(want)) {
			t.Fatalf("cardinality %d, want %d", cardinality, len(want))
		}
		all = append(all, placed{want, offset, size})
	}
	for i, a := range all {
		b, err := Read(p.Bytes(), a.offset, a.size)
		if err != nil {
			t.Fatalf("vector %d: %v", i, err)
		}
		if got := slices.Collect(b.Rows()); !slices.Equal(got, a.want) {
			t.Fatalf("vector %d: %d rows, want %d", i, len(got), len(a.want))
		}
		for _, r := range a.want {
			if !b.Contains(r) {
				t.Fatalf("vector %d lacks row %d", i, r)
			}
		}
	}
}

func TestZ85(t *testing.T) {
	// The test vector of ZeroMQ RFC 32.
	raw := []byte{0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B}
	if got := EncodeZ85(raw); got != "HelloWorld" {
		t.Fatalf("encoded %q", got)
	}
	back, err := DecodeZ85("HelloWorld")
	if err != nil || !bytes.Equal(back, raw) {
		t.Fatalf("decoded %x, %v", back, err)
	}
	for _, bad := range []string{"abcd", "ab\x00de", "ab~de"} {
		if _, err := DecodeZ85(bad); err == nil {
			t.Fatalf("%q was decoded", bad)
		}
	}
}

func TestFileNameOfID(t *testing.T) {
	// From the protocol: "ab^-aqEH.-t@S}K{vb[*k^" has the prefix ab.
	key, err := KeyOfPath("ab^-aqEH.-t@S}K{vb[*k^")
	if err != nil || key != "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin" {
		t.Fatalf("key %q, %v", key, err)
	}
	id := uuid.MustParse("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
	if got := PathOfID(id); got != "^-aqEH.-t@S}K{vb[*k^" {
		t.Fatalf("path %q", got)
	}
	if _, err := KeyOfPath("../" + PathOfID(id)); err == nil {
		t.Fatal("a prefix that leaves the table was taken")
	}
}

func TestDamage(t *testing.T) {
	b := New()
	for i := range uint32(5000) {
		b.Add(i * 7)
	}
	var p Packer
	offset, size, _, err := p.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Bytes() {
		file := slices.Clone(p.Bytes())
		file[i] ^= 0x20
		if _, err := Read(file, offset, size); err == nil {
			t.Fatalf("a flipped bit at byte %d was not seen", i)
		}
	}
	for n := range len(p.Bytes()) {
		if _, err := Read(p.Bytes()[:n], offset, size); err == nil {
			t.Fatalf("a file cut to %d bytes was read", n)
		}
	}
}

// testdata finds the shared test data, or skips.
func testdata(t testing.TB, parts ...string) string {
	root := os.Getenv("GSCD_TESTDATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{root}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared test data at %s (GSCD_TESTDATA)", path)
	}
	return path
}

// TestVectorsOfOtherEngines reads every deletion vector that the JSON commits of
// the shared Delta tables name; the descriptors' own cardinality is the oracle.
func TestVectorsOfOtherEngines(t *testing.T) {
	root := testdata(t, "delta-tables")
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) != "_delta_log" || !strings.HasSuffix(path, ".json") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		table := filepath.Dir(filepath.Dir(path))
		for line := range strings.Lines(string(raw)) {
			var a struct {
				Add struct {
					DeletionVector *struct {
						StorageType    string `json:"storageType"`
						PathOrInlineDv string `json:"pathOrInlineDv"`
						Offset         int32  `json:"offset"`
						SizeInBytes    int32  `json:"sizeInBytes"`
						Cardinality    int64  `json:"cardinality"`
					} `json:"deletionVector"`
				} `json:"add"`
			}
			if json.Unmarshal([]byte(line), &a) != nil || a.Add.DeletionVector == nil {
				continue
			}
			v := a.Add.DeletionVector
			var b *Bitmap
			switch v.StorageType {
			case "i":
				b, err = Inline(v.PathOrInlineDv, v.SizeInBytes)
			case "u":
				var key string
				if key, err = KeyOfPath(v.PathOrInlineDv); err != nil {
					break
				}
				file, readErr := os.ReadFile(filepath.Join(table, key))
				if readErr != nil {
					continue // the table was made without its file
				}
				b, err = Read(file, v.Offset, v.SizeInBytes)
			default:
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if b.Cardinality() != v.Cardinality {
				t.Errorf("%s: %d dead rows, the descriptor says %d", path, b.Cardinality(), v.Cardinality)
			}
			seen++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Fatalf("only %d deletion vectors were found", seen)
	}
	t.Logf("%d deletion vectors", seen)
}

func FuzzUnmarshal(f *testing.F) {
	b := New()
	b.AddMany([]uint32{1, 2, 3, 70_000, 1 << 31})
	data, err := b.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, magic), 1<<40))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Unmarshal(data)
		if err != nil {
			return
		}
		again, err := b.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		c, err := Unmarshal(again)
		if err != nil || !slices.Equal(slices.Collect(b.Rows()), slices.Collect(c.Rows())) {
			t.Fatalf("what was read reads otherwise when written again: %v", err)
		}
	})
}
