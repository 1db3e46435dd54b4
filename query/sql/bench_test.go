//go:build cgo

package sql_test

import (
	"testing"

	"github.com/gscd-io/gscd/query/sql"
)

func BenchmarkRun(b *testing.B) {
	s := localShop(b)
	for _, q := range []string{"SELECT 1", "SELECT count(*) FROM user_dim", "SELECT count(*) FROM user_dim WHERE dt = '2022-07-09'", "SELECT dt, count(*) FROM user_dim GROUP BY dt"} {
		b.Run(q, func(b *testing.B) {
			for b.Loop() {
				mustAsk(b, sql.Options{Tables: s.tables()}, q)
			}
		})
	}
}
