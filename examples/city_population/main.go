// Command city_population keeps three layers of tables in step by change data: user_dim and the
// dimension city_dim, user_city_tbl (who lives in which city), and city_population_tbl
// (how many live in each). A refresh reads what has changed, not the tables.
//
//	go run ./examples/city_population
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/gscd-io/gscd/delta/write"
)

func main() {
	dir, err := os.MkdirTemp("", "city_population-")
	if err == nil {
		err = tell(context.Background(), dir, os.Stdout)
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// tell plays the story of the example in a folder.
func tell(ctx context.Context, dir string, out io.Writer) error {
	l, err := create(ctx, dir)
	if err != nil {
		return err
	}
	step := func(title string, change func() error) error {
		fmt.Fprintf(out, "\n%s\n", title)
		if err := change(); err != nil {
			return err
		}
		r, err := l.refresh(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  rows of user_city_tbl written: %d\n", r.users)
		for _, c := range r.cities {
			fmt.Fprintf(out, "  %-10s %+d  ->  %d\n", c.city, c.delta, c.population)
		}
		return l.check(ctx)
	}
	return first(
		step("Three users.", func() error {
			return first(l.put(ctx, l.cities, []any{1, "Beijing"}, []any{2, "Hangzhou"}, []any{3, "Wuhan"}),
				l.put(ctx, l.users, []any{1, "Chen Jie", 1}, []any{2, "Li Na", 2}, []any{3, "Wang Wei", 1}))
		}),
		step("Chen Jie moves from Beijing to Hangzhou, Zhao Min is new in Wuhan.", func() error {
			return l.put(ctx, l.users, []any{1, "Chen Jie", 2}, []any{4, "Zhao Min", 3})
		}),
		step("Nothing.", func() error { return nil }),
		step("The dimension changes: Hangzhou is called Lin'an.", func() error {
			return l.put(ctx, l.cities, []any{2, "Lin'an"})
		}),
		step("Zhao Min leaves.", func() error {
			_, err := write.Delete(ctx, l.users, "user_id = 4")
			return err
		}),
	)
}

// first gives the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
