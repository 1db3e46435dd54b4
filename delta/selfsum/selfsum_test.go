package selfsum_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/selfsum"
)

func parquetFile(t testing.TB) []byte {
	e, err := parquet.NewEncoder([]parquet.Column{{Name: "id", Type: schema.Of(schema.Long)}, {Name: "v", Type: schema.Of(schema.StringType)}}, parquet.EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := e.Encode([][]schema.Value{{schema.IntValue(1), schema.StringValue("a")}, {schema.IntValue(2), {}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func zstdFile(t testing.TB) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return selfsum.AppendFrame(z.EncodeAll([]byte("some text of a file"), nil))
}

func commitFile() []byte {
	data := []byte(`{"commitInfo":{"operation":"WRITE","note":"\"sha256\":\"` + selfsum.Zeros + `\"","sha256":"` + selfsum.Zeros + `"}}` + "\n" +
		`{"add":{"path":"a","tags":{"x":"y","sha256":"` + selfsum.Zeros + `"}}}` + "\n")
	selfsum.Commit.Set(data)
	return data
}

// Each bit of an object is told, in both ways of reading; the object as it is is not.
func TestEveryBit(t *testing.T) {
	for name, c := range map[string]struct {
		form selfsum.Form
		data []byte
	}{"Parquet": {selfsum.Parquet, parquetFile(t)}, "zstd": {selfsum.Zstd, zstdFile(t)}, "commit": {selfsum.Commit, commitFile()}} {
		t.Run(name, func(t *testing.T) {
			check := func(data []byte) (has bool, err error) {
				has, err = c.form.Check(data)
				if name == "commit" {
					return has, err
				}
				again, err2 := c.form.CheckReader(bytes.NewReader(data), int64(len(data)))
				if has != again || (err == nil) != (err2 == nil) {
					t.Errorf("whole: %v, %v; by pieces: %v, %v", has, err, again, err2)
				}
				return has, err
			}
			if has, err := check(c.data); !has || err != nil {
				t.Fatalf("as it was written: %v, %v", has, err)
			}
			for bit := range len(c.data) * 8 {
				c.data[bit/8] ^= 1 << (bit % 8)
				if _, err := check(c.data); !errors.Is(err, selfsum.ErrDiffers) {
					t.Errorf("bit %d of byte %d (%q): %v", bit%8, bit/8, c.data[bit/8], err)
				}
				c.data[bit/8] ^= 1 << (bit % 8)
			}
		})
	}
}

// An object without a sum is as it is; one that was cut off is told by its reader.
func TestNoSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		data := make([]byte, random.IntN(3000))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		for _, form := range []selfsum.Form{selfsum.Parquet, selfsum.Zstd, selfsum.Commit} {
			if has, err := form.Check(data); has || err != nil {
				t.Errorf("%d random bytes: %v, %v", len(data), has, err)
			}
		}
	}
}

// Decoders pass over the sum.
func TestZstdReadsAsBefore(t *testing.T) {
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if got, err := z.DecodeAll(zstdFile(t), nil); err != nil || string(got) != "some text of a file" {
		t.Errorf("%q, %v", got, err)
	}
}
