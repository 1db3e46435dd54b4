package binlog_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// benchFile has 50,000 rows in many transactions, and as many updates.
const benchFile = "binlog/mariadb/transfer-tx_boundaries.000001"

// BenchmarkReader reads a file into events; beside it what go-mysql's parser alone takes
// for the same bytes, and what the records of gscd's form add.
func BenchmarkReader(b *testing.B) {
	path := cdcFile(b, benchFile)
	size := func(b *testing.B) {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(info.Size())
	}
	read := func(b *testing.B, each func(*event.Event)) {
		size(b)
		b.ReportAllocs()
		rows := 0
		for b.Loop() {
			files := binlog.OpenFiles(path)
			r := binlog.NewReader(files, ddl.NewCatalog(), binlog.Options{Name: "app"})
			for {
				ev, err := r.Next(context.Background())
				if err == io.EOF {
					break
				}
				if err != nil {
					b.Fatal(err)
				}
				if ev.Op != event.Schema {
					rows++
					each(ev)
				}
			}
			files.Close()
		}
		b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	}
	b.Run("events", func(b *testing.B) { read(b, func(*event.Event) {}) })
	b.Run("records", func(b *testing.B) {
		enc, err := event.NewEncoder(event.GSCD)
		if err != nil {
			b.Fatal(err)
		}
		read(b, func(ev *event.Event) {
			if err := enc.Records(ev, func(event.Record) error { return nil }); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("go-mysql", func(b *testing.B) {
		size(b)
		b.ReportAllocs()
		rows := 0
		for b.Loop() {
			p := replication.NewBinlogParser()
			p.SetFlavor("mariadb")
			err := p.ParseFile(path, 0, func(ev *replication.BinlogEvent) error {
				if e, ok := ev.Event.(*replication.RowsEvent); ok {
					n := len(e.Rows)
					if e.Type() == replication.EnumRowsEventTypeUpdate {
						n /= 2
					}
					rows += n
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	})
}
