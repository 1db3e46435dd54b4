package marker

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/progress"
)

// BenchmarkDay is the markers of a day's commits of 10,000 changes, a tenth of them deletes.
func BenchmarkDay(b *testing.B) {
	for _, commits := range []int{200, 1000} {
		b.Run(fmt.Sprint(commits), func(b *testing.B) {
			written, used := int64(0), cpuTime()
			for b.Loop() {
				store, set := mem.New(), NewSet()
				var files []progress.MarkerFile
				for c := range commits {
					added := make([]Added, 1000)
					for d := range added {
						key := make([]byte, 9)
						key[0] = 2
						binary.BigEndian.PutUint64(key[1:], uint64(c*1000+d)*0x9e3779b97f4a7c15>>20)
						added[d] = Added{string(key), at(int64(c*10000 + d*10))}
					}
					list, err := set.Plan(files, 1, added).Write(ctx, store)
					if err != nil {
						b.Fatal(err)
					}
					for _, f := range files {
						if !slices.Contains(list, f) {
							_ = store.Delete(ctx, f.Key)
						}
					}
					files = list
					written += files[len(files)-1].Bytes
				}
			}
			b.ReportMetric(float64(written)/float64(b.N)/float64(commits), "written-B/commit")
			b.ReportMetric(float64(cpuTime()-used)/1e3/float64(b.N)/float64(commits), "cpu-us/commit")
		})
	}
}

// cpuTime is what the process has used of the processors, which does not hang on what else they do.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
