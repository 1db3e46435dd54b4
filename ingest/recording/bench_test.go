package recording

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// benchFile makes a recording of n Debezium-like records of about 1 kB over 4 partitions.
func benchFile(b *testing.B, form Form, n int) string {
	row := func(i int) string {
		return fmt.Sprintf(`{"id":%d,"customer_id":%d,"status":"paid","amount":"8h9JTFicAAE=","note":"naive café %d","created_at":1657866781328542,"updated_at":"2022-07-15T06:33:02.325Z","address":"some street in some town, number 12","flags":7,"remark":null}`, i, i*7, i)
	}
	var buf bytes.Buffer
	w := NewWriter(&buf, form)
	rng := rand.New(rand.NewPCG(1, 2))
	var next [4]int64
	for i := range n {
		p := rng.IntN(4)
		r := &change.Record{Topic: "shop.orders", Partition: int32(p), Offset: next[p], Timestamp: 1657936800400 + int64(i), Key: fmt.Appendf(nil, `{"id":%d}`, i),
			Value: fmt.Appendf(nil, `{"before":%s,"after":%s,"source":{"version":"3.5.0.Final","connector":"mysql","name":"s1","ts_ms":1657893600000,"snapshot":"false","db":"shop","table":"orders","server_id":184054,"gtid":null,"file":"binlog.000001","pos":%d,"row":0},"op":"u","ts_ms":1657893600123}`, row(i), row(i+1), i*300)}
		next[p]++
		if err := w.Write(r); err != nil {
			b.Fatal(err)
		}
	}
	w.Flush()
	return write(b, b.TempDir(), "bench.jsonl", buf.String())
}

func BenchmarkRecording(b *testing.B) {
	const n = 50_000
	for _, form := range []Form{Readable, Kcat} {
		path := benchFile(b, form, n)
		info, _ := os.Stat(path)
		name := [...]string{"readable", "kcat"}[form]
		b.Run("open/"+name, func(b *testing.B) {
			b.SetBytes(info.Size())
			for range b.N {
				r, err := Open([]string{path}, Options{})
				if err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
		b.Run("poll/"+name, func(b *testing.B) {
			b.SetBytes(info.Size())
			b.ReportAllocs()
			r := open(b, Options{}, path)
			for b.Loop() {
				assignAll(b, r)
				for left := n; left > 0; {
					blocks, err := r.Poll(context.Background(), 10_000)
					if err != nil {
						b.Fatal(err)
					}
					for _, block := range blocks {
						left -= len(block.Records)
					}
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
