package report

import (
	"math"
	"strings"
)

// chart is stacked bars over the labels.
type chart struct {
	ID, Title, About string
	Width, Height    int
	Series           []series
	Bars             []bar
	Ticks            []tick
	Names            []tick // below the bars
	// Each is how many labels one bar stands for.
	Each int
	// Sum is of all labels, as text; "" where sums mean nothing.
	Sum string
}

// series is one kind of bar: its number is its colour.
type series struct {
	Name string
	of   func(*Day) int64
	Sum  string
}

type bar struct {
	X, Y, W, H float64
	Series     int
	Title      string
	// Hit is a place without colour that tells Title.
	Hit bool
}

type tick struct {
	At   float64
	Text string
	// Anchor is start, middle or end.
	Anchor string
}

const (
	chartWidth, chartHeight = 960, 170
	chartLeft, chartTop     = 64, 8
	chartRight, chartBottom = 8, 22
	maxBars                 = 400
)

// chartOf draws series of the days whose counts are known. Where there are more labels
// than bars fit, a bar adds some up, or shows the last of them where last is set. binary:
// the values are bytes.
func chartOf(id, title, about string, days []*Day, last, binary bool, list ...series) *chart {
	number := pick(binary, size, short)
	c := &chart{ID: id, Title: title, About: about, Width: chartWidth, Height: chartHeight, Each: 1, Series: list}
	c.Each = max(1, (len(days)+maxBars-1)/maxBars)
	var buckets []bucket
	for from := 0; from < len(days); from += c.Each {
		buckets = append(buckets, bucketOf(days[from:min(len(days), from+c.Each)], last, list))
	}
	highest := int64(0)
	sums := make([]int64, len(list))
	for _, b := range buckets {
		highest = max(highest, b.total())
		for i, v := range b.values {
			sums[i] += v
		}
	}
	if !last {
		for i := range c.Series {
			c.Series[i].Sum = number(float64(sums[i]))
		}
	}
	unit := 1.0
	if binary {
		for unit*1024 <= float64(highest) {
			unit *= 1024
		}
	}
	step, top := nice(float64(highest) / unit)
	step, top = max(step*unit, 1), top*unit
	plotH := float64(chartHeight - chartTop - chartBottom)
	y := func(v float64) float64 { return round(chartTop + plotH - v/top*plotH) }
	for v := 0.0; v <= top*1.001; v += step {
		c.Ticks = append(c.Ticks, tick{At: y(v), Text: number(v)})
	}
	slot := float64(chartWidth-chartLeft-chartRight) / float64(max(len(buckets), 1))
	wide := min(slot*0.86, 44)
	for i, b := range buckets {
		x := chartLeft + slot*float64(i)
		base := 0.0
		for n, v := range b.values {
			if v <= 0 {
				continue
			}
			c.Bars = append(c.Bars, bar{X: round(x + (slot-wide)/2), Y: y(base + float64(v)), W: round(wide), H: round(y(base) - y(base+float64(v))), Series: n})
			base += float64(v)
		}
		c.Bars = append(c.Bars, bar{X: round(x), Y: chartTop, W: round(slot), H: plotH, Title: b.title(list), Hit: true})
	}
	c.names(buckets, slot)
	return c
}

// names puts the first, the last and some labels between below the bars.
func (c *chart) names(buckets []bucket, slot float64) {
	if len(buckets) == 0 {
		return
	}
	const letter, apart = 6, 24 // pixels
	fit := max(2, (chartWidth-chartLeft)/(letter*len(buckets[0].first)+apart))
	every := max(1, (len(buckets)+fit-1)/fit)
	for i := 0; i < len(buckets); i += every {
		if i > 0 && len(buckets)-1-i < every && i != len(buckets)-1 {
			continue // too near to the last one
		}
		c.Names = append(c.Names, tick{At: round(chartLeft + slot*(float64(i)+0.5)), Text: buckets[i].first, Anchor: "middle"})
	}
	if last := len(buckets) - 1; last%every != 0 {
		c.Names = append(c.Names, tick{At: chartWidth - chartRight, Text: buckets[last].first, Anchor: "end"})
	}
}

// bucket is what one bar shows.
type bucket struct {
	first, last string
	values      []int64
	known       bool // of any of the days
}

func bucketOf(days []*Day, last bool, list []series) bucket {
	b := bucket{first: days[0].Name, last: days[len(days)-1].Name, values: make([]int64, len(list))}
	for _, d := range days {
		if !d.Known {
			continue
		}
		b.known = true
		for i := range list {
			if v := list[i].of(d); last {
				b.values[i] = v
			} else {
				b.values[i] += v
			}
		}
	}
	return b
}

func (b *bucket) total() (n int64) {
	for _, v := range b.values {
		n += v
	}
	return n
}

func (b *bucket) title(list []series) string {
	var t strings.Builder
	t.WriteString(b.first)
	if b.last != b.first {
		t.WriteString(" to " + b.last)
	}
	if !b.known {
		return t.String() + ": not known"
	}
	for i, v := range b.values {
		t.WriteString(pick(i == 0, ": ", ", ") + grouped(v) + " " + list[i].Name)
	}
	return t.String()
}

// nice gives a step of 1, 2 or 5 times a power of ten with at most five of them below
// the top, which is at or above the highest value.
func nice(highest float64) (step, top float64) {
	if highest <= 0 {
		return 1, 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * power; highest/step <= 4 {
			break
		}
	}
	return step, math.Ceil(highest/step) * step
}

func round(v float64) float64 { return math.Round(v*10) / 10 }
