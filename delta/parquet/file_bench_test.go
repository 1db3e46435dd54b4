package parquet_test

import (
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
)

const benchRows = 200_000

func benchFile(b *testing.B, codec parquet.Codec) *parquet.File {
	b.Helper()
	data, _ := encodeRows(b, orders, orderRows(benchRows), parquet.EncoderOptions{Codec: codec})
	return openBytes(b, data)
}

func BenchmarkScan(b *testing.B) {
	for name, codec := range map[string]parquet.Codec{"zstd": parquet.Zstd, "snappy": parquet.Snappy} {
		f := benchFile(b, codec)
		for columns, n := range map[string]int{"all": len(orders), "3": 3} {
			b.Run(name+"/"+columns, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for _, err := range f.Scan(b.Context(), orders[:n], parquet.ScanOptions{}) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func BenchmarkInt64s(b *testing.B) {
	f := benchFile(b, parquet.Zstd)
	var sum int64
	for b.Loop() {
		err := f.Int64s("id", func(_ int64, values []int64, _ []bool) error {
			for _, v := range values {
				sum += v
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkRows(b *testing.B) {
	f := benchFile(b, parquet.Zstd)
	at := []int64{}
	for i := int64(0); i < benchRows; i += benchRows / 10 {
		at = append(at, i)
	}
	for b.Loop() {
		if _, err := f.Rows(b.Context(), orders, at); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStructs(b *testing.B) {
	rows := make([]action, 20_000)
	for i := range rows {
		rows[i].Add = &add{
			Path: ptr("part-00000-a496f40c-e091-413a-85f9-b1b69d4b3b4e-c000.snappy.parquet"), Size: ptr(int64(i)),
			PartitionValues: map[string]*string{"dt": ptr("2022-07-16")}, Stats: ptr(`{"numRecords":1000,"minValues":{"id":1},"maxValues":{"id":1000}}`),
		}
	}
	data := encode(b, rows)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			encode(b, rows)
		}
		b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := parquet.DecodeStructs[action](data); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
