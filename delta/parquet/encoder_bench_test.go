package parquet_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// orders is a table like those of the measurements: 12 columns, two of few values.
var orders = []parquet.Column{
	{Name: "id", Type: schema.Of(schema.Long)},
	{Name: "customer_id", Type: schema.Of(schema.Long)},
	{Name: "status", Type: schema.Of(schema.StringType)},
	{Name: "country", Type: schema.Of(schema.StringType)},
	{Name: "amount", Type: schema.Decimal(12, 2)},
	{Name: "tax", Type: schema.Decimal(20, 4)},
	{Name: "note", Type: schema.Of(schema.StringType)},
	{Name: "email", Type: schema.Of(schema.StringType)},
	{Name: "created", Type: schema.Of(schema.Timestamp)},
	{Name: "shipped", Type: schema.Of(schema.Date)},
	{Name: "weight", Type: schema.Of(schema.DoubleType)},
	{Name: "open", Type: schema.Of(schema.Boolean)},
}

func orderRows(n int) [][]schema.Value {
	r := rand.New(rand.NewPCG(1, 2))
	status := []string{"new", "paid", "packed", "shipped", "returned"}
	rows := make([][]schema.Value, n)
	for i := range rows {
		id := r.Int64N(1 << 40)
		row := []schema.Value{
			schema.IntValue(id), schema.IntValue(r.Int64N(1 << 20)),
			schema.StringValue(status[r.IntN(5)]), schema.StringValue(fmt.Sprintf("C%02d", r.IntN(60))),
			{Kind: schema.Dec, I: r.Int64N(1e7)}, {Kind: schema.Dec, I: r.Int64N(1e9) - 5e8},
			schema.StringValue(fmt.Sprintf("note %x for order %d", r.Uint32(), id)),
			schema.StringValue(fmt.Sprintf("user%d@example.com", r.IntN(1<<20))),
			schema.IntValue(1657929600_000000 + r.Int64N(86400_000000)), schema.IntValue(19189 + r.Int64N(30)),
			schema.DoubleValue(float64(r.IntN(5000)) / 100), schema.BoolValue(r.IntN(2) == 0),
		}
		if r.IntN(10) == 0 {
			row[6], row[9] = schema.NullValue(), schema.NullValue()
		}
		rows[i] = row
	}
	return rows
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		rows := orderRows(n)
		for _, goroutines := range []int{1, 2} {
			for name, codec := range map[string]parquet.Codec{"zstd": parquet.Zstd, "snappy": parquet.Snappy} {
				b.Run(fmt.Sprintf("%d/%s/%d", n, name, goroutines), func(b *testing.B) {
					e, err := parquet.NewEncoder(orders, parquet.EncoderOptions{Codec: codec, Goroutines: goroutines})
					if err != nil {
						b.Fatal(err)
					}
					var size int
					b.ReportAllocs()
					for b.Loop() {
						data, _, err := e.Encode(rows)
						if err != nil {
							b.Fatal(err)
						}
						size = len(data)
					}
					b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
					b.ReportMetric(float64(size)/float64(n), "B/row")
				})
			}
		}
	}
}
