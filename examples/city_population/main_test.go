package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/write"
)

const told = `
Three users.
  rows of user_city_tbl written: 3
  Beijing    +2  ->  2
  Hangzhou   +1  ->  1

Chen Jie moves from Beijing to Hangzhou, Zhao Min is new in Wuhan.
  rows of user_city_tbl written: 2
  Beijing    -1  ->  1
  Hangzhou   +1  ->  2
  Wuhan      +1  ->  1

Nothing.
  rows of user_city_tbl written: 0

The dimension changes: Hangzhou is called Lin'an.
  rows of user_city_tbl written: 2
  Hangzhou   -2  ->  0
  Lin'an     +2  ->  2

Zhao Min leaves.
  rows of user_city_tbl written: 1
  Wuhan      -1  ->  0
`

// The story has the figures that the README shows.
func TestTell(t *testing.T) {
	var out strings.Builder
	if err := tell(t.Context(), t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != told {
		t.Errorf("told\n%s\nwant\n%s", out.String(), told)
	}
}

// A user moves, a new one comes: the changes of the classic example, and no others.
func TestFigures(t *testing.T) {
	ctx := t.Context()
	l, err := create(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	do := func(errs ...error) report {
		t.Helper()
		if err := first(errs...); err != nil {
			t.Fatal(err)
		}
		r, err := l.refresh(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.check(ctx); err != nil {
			t.Fatal(err)
		}
		return r
	}
	do(l.put(ctx, l.cities, []any{1, "Beijing"}, []any{2, "Hangzhou"}, []any{3, "Wuhan"}),
		l.put(ctx, l.users, []any{1, "a", 1}, []any{2, "b", 1}, []any{3, "c", 2}))
	r := do(l.put(ctx, l.users, []any{1, "a", 2}), l.put(ctx, l.users, []any{4, "d", 3}))
	if want := []cityChange{{"Beijing", -1, 1}, {"Hangzhou", +1, 2}, {"Wuhan", +1, 1}}; !slices.Equal(r.cities, want) {
		t.Errorf("changes %v, want %v", r.cities, want)
	}
}

// Whatever changes on either side of the join, and however many commits lie between two
// refreshes, the layers are what a full computation gives.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			rng := rand.New(rand.NewPCG(seed, 1))
			l, err := create(ctx, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for range 25 {
				for range rng.IntN(4) {
					var err error
					switch rng.IntN(6) {
					case 0:
						_, err = write.Delete(ctx, l.users, fmt.Sprintf("user_id > %d", 3+rng.IntN(12)))
					case 1:
						_, err = write.Delete(ctx, l.cities, fmt.Sprintf("city_id = %d", rng.IntN(5)))
					case 2: // a city is new, gets another name, or that of another one
						err = l.put(ctx, l.cities, []any{rng.IntN(5), []string{"Beijing", "Xi'an", "Wuhan", "Lin'an"}[rng.IntN(4)]})
					default:
						users := map[int]bool{}
						var rows [][]any
						for range 1 + rng.IntN(5) {
							id := rng.IntN(15)
							if !users[id] {
								city := any(rng.IntN(6)) // 5 never is a city
								if rng.IntN(8) == 0 {
									city = nil
								}
								rows = append(rows, []any{id, fmt.Sprint("user ", rng.IntN(3)), city})
							}
							users[id] = true
						}
						err = l.put(ctx, l.users, rows...)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if _, err := l.refresh(ctx); err != nil {
					t.Fatal(err)
				}
				if err := l.check(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
