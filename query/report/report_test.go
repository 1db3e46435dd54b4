package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// hostile would run, load or turn something if a page let it.
const hostile = `</td><script src="http://evil.example/x.js">alert(1)</script>"'><img src=x onerror=alert(1)> ` + "\u202e\x00\x1b[31m"

// made is a report of labels from a time on, the last one open, with a problem of every kind.
func made(t testing.TB, granularity string, from time.Time, labels int) *Report {
	t.Helper()
	calendar, err := snapshotter.NewCalendar(granularity, "Europe/Berlin", "")
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{
		Name: "user_dim" + hostile, Address: "/lake/user_dim", Made: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), Calendar: calendar,
		Key: []string{"id", hostile}, Checked: true, Named: []savepoint.Named{{Name: "before <b>audit</b>", Version: 3}},
		Table: query.Description{Version: 4711, Files: 12, Bytes: 5 << 20, Rows: 1234, MinReaderVersion: 3, MinWriterVersion: 7, DeletionVectors: 2, DeletedRows: 10, Columns: []schema.Field{{Name: hostile}}},
		Partitions: []Partition{
			{Topic: "shop" + hostile, Offset: 1000, Watermark: from.Add(100 * time.Hour)},
			{Topic: "shop", Number: 1, Offset: 7, Behind: true},
		},
	}
	first := calendar.Label(from.UnixMicro())
	rows := int64(0)
	for i := range labels {
		l := first + snapshotter.Label(i)
		d := Day{}
		d.Entry = savepoint.Entry{Label: l, Name: calendar.Name(l), State: savepoint.Sealed, Version: int64(3*i + 2)}
		d.Known, d.SealedAt = true, time.UnixMicro(calendar.End(l)).UTC().Format(time.RFC3339Nano)
		d.Counts = progress.Counts{Inserts: int64(i*37%101) * 11, Updates: int64(i*53%89) * 7, Deletes: int64(i % 5), Drift: int64(i % 7), Late: int64(i % 11 / 10), Duplicates: int64(i % 3)}
		rows += d.Counts.Inserts - d.Counts.Deletes
		d.Rows, d.OwnBytes = rows, 4096+int64(i*7919%5000)*100
		switch {
		case i == labels-1:
			d.State, d.SealedAt = savepoint.Open, ""
		case i%97 == 3:
			d.State, d.Known, d.SealedAt, d.Version = savepoint.DeletedOne, false, "", -1
		case i == labels-2 && labels > 3:
			d.State, d.Known, d.SealedAt, d.At, d.To = savepoint.RolledBack, false, "", "2026-01-01T00:00:00Z", r.Days[i-1].Name
		case i%41 == 5:
			d.Attributes, d.Reason = []string{"incomplete", "by clock"}, "a load was cut off: "+hostile
		}
		r.Days = append(r.Days, d)
	}
	r.problemsOfDays(&progress.Progress{DeadLetters: map[string]int64{r.Days[labels/2].Name: 3}, Resolved: map[string]int64{r.Days[labels/2].Name: 1}})
	r.problem("error", "check", r.Days[0].Name, "part-0001.parquet is missing "+hostile)
	r.problem("note", "behind", r.Days[labels-1].Name, "partition shop/1 is not past the end")
	r.Profile = &Profile{Of: labels, Rows: 10, Labels: []string{r.Days[0].Name, r.Days[labels-1].Name}, Read: []string{r.Days[labels-1].Name}, Why: "they have more than 5 rows together with those after them"}
	for _, name := range []string{"id", hostile, "dt"} {
		r.Profile.Columns = append(r.Profile.Columns, Column{Name: name, Type: "string", Cells: []Cell{
			{Rows: 10, Nulls: 3, Distinct: -1, Min: "a", Max: cut(hostile), HasRange: true, Bounds: true},
			{Rows: 1_000_000, Nulls: 1, Distinct: 998_877, Min: cut(strings.Repeat("x", 500)), Max: cut(hostile), HasRange: true},
		}})
	}
	r.Profile.Columns[2].Cells[0] = Cell{Absent: true, Rows: 10, Nulls: 10}
	return r
}

func written(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("GSCD_TEST_PAGES"); dir != "" { // to look at
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+".html"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

var spring = time.Date(2022, 3, 20, 12, 0, 0, 0, time.UTC)

// Calendars of every granularity have a place for each label, each place once.
func TestEveryCalendarIsDrawn(t *testing.T) {
	for _, c := range []struct {
		granularity string
		labels      int
		sheets      int
		most        int // bytes of the page
	}{
		{"day", 1, 1, 40_000},
		{"day", 5, 1, 60_000},
		{"day", 120, 5, 300_000},
		{"day", 3 * 365, 4, 1_500_000},
		{"hour", 1, 1, 40_000},
		{"hour", 24 * 30, 1, 1_000_000},
		{"hour", MaxDays, 7, 12_000_000},
		{"15m", 500, 1, 1_000_000},
		{"5m", 900, 2, 1_000_000},
		{"1m", 100, 1, 300_000},
		{"week", 160, 1, 400_000},
		{"month", 40, 1, 200_000},
	} {
		t.Run(fmt.Sprintf("%s-%d", c.granularity, c.labels), func(t *testing.T) {
			r := made(t, c.granularity, spring, c.labels)
			page := written(t, r)
			g := gridOf(r)
			if len(g.Sheets) != c.sheets {
				t.Errorf("%d sheets, want %d", len(g.Sheets), c.sheets)
			}
			cells := 0
			for n, s := range g.Sheets {
				places := map[[2]int]string{}
				for _, cell := range s.Cells {
					place := [2]int{cell.X, cell.Y}
					if other := places[place]; other != "" {
						t.Errorf("sheet %d: %q and %q are in one place", n, other, cell.Title)
					}
					places[place] = cell.Title + " "
					if cell.X < 0 || cell.Y < 0 || cell.X+cell.W > s.Width || cell.Y+cell.H > s.Height {
						t.Errorf("sheet %d: %q is outside: %+v of %d×%d", n, cell.Title, cell, s.Width, s.Height)
					}
					if cell.Class != "none" {
						cells++
					}
				}
				if s.Width > 1132 {
					t.Errorf("sheet %d is %d wide: it does not fit the page", n, s.Width)
				}
			}
			if cells != c.labels {
				t.Errorf("%d places, want %d", cells, c.labels)
			}
			if len(page) > c.most {
				t.Errorf("the page has %d bytes, want at most %d", len(page), c.most)
			}
			if n := strings.Count(page, `<tr><th scope="row">2`); n != c.labels {
				t.Errorf("%d rows in the table of days, want %d", n, c.labels)
			}
			if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
				t.Error("a picture has places that are no numbers")
			}
		})
	}
}

var (
	tagForm       = regexp.MustCompile(`<([a-zA-Z!/][^\s>]*)`)
	attributeForm = regexp.MustCompile(`\s([a-zA-Z-]+)=`)
)

// Whatever names and values say, the page has our tags and attributes, no address, no script.
func TestHostileTexts(t *testing.T) {
	page := written(t, made(t, "day", spring, 50))
	body := regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page, "")
	allowed := map[string]bool{}
	for _, name := range strings.Fields("!DOCTYPE html head meta title body header h1 h2 h3 bdi p span br dl div dt dd small main section table thead tbody tr th td svg g rect path circle line text figure figcaption ul li details summary footer a") {
		allowed[name], allowed["/"+name] = true, true
	}
	for _, m := range tagForm.FindAllStringSubmatch(body, -1) {
		if !allowed[m[1]] {
			t.Errorf("the page has the tag %s", m[0])
		}
	}
	for _, tag := range regexp.MustCompile(`<[a-z][^>]*>`).FindAllString(body, -1) {
		for _, m := range attributeForm.FindAllStringSubmatch(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`), -1) {
			if strings.HasPrefix(m[1], "on") || m[1] == "src" || m[1] == "style" || m[1] == "srcdoc" || m[1] == "action" {
				t.Errorf("the attribute %s in %s", m[1], tag)
			}
			if m[1] == "href" && !strings.Contains(tag, `href="#`) {
				t.Errorf("a link leads away: %s", tag)
			}
		}
	}
	for _, never := range []string{"url(", "@import", "@font-face", "\u202e", "\x00", "\x1b", "<script"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	// An address is in texts alone, where it is part of what the table holds.
	if n := strings.Count(page, "http://"); n == 0 || n != strings.Count(page, "&lt;script src=&#34;http://evil.exampl") {
		t.Errorf("addresses stand %d times, not always as text", n)
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("the page does not forbid scripts")
	}
}

// The outline of a page: headings, pictures, tables. GSCD_TEST_UPDATE writes it anew.
func TestOutline(t *testing.T) {
	page := written(t, made(t, "day", spring, 50))
	var b strings.Builder
	part := regexp.MustCompile(`(?s)<h[123][^>]*>.*?</h[123]>|<svg role[^>]*>.*?</svg>|<table.*?</table>|<dl class="tiles">.*?</dl>|<p class="about">.*?</p>`)
	tags, rowForm := regexp.MustCompile(`<[^>]*>`), regexp.MustCompile(`(?s)<tr>.*?</tr>`)
	plain := func(s string) string { return strings.Join(strings.Fields(tags.ReplaceAllString(s, " ")), " ") }
	for _, m := range part.FindAllString(page, -1) {
		switch {
		case strings.HasPrefix(m, "<h"):
			fmt.Fprintf(&b, "%s %s\n", m[1:3], plain(m))
		case strings.HasPrefix(m, "<svg"):
			fmt.Fprintf(&b, "picture: %d rect, %d with a title, %d marks, %d open, %d rolled back, %d deleted\n", strings.Count(m, "<rect"), strings.Count(m, "<title>"),
				strings.Count(m, `class="mark"`), strings.Count(m, "cell open"), strings.Count(m, "cell back"), strings.Count(m, "cell gone"))
		case strings.HasPrefix(m, "<table"):
			rows := rowForm.FindAllString(m, -1)
			fmt.Fprintf(&b, "table of %d rows: %s\n  %s\n", len(rows)-1, plain(rows[0]), plain(rows[len(rows)-1]))
		default:
			fmt.Fprintf(&b, "  %s\n", plain(m))
		}
	}
	name := filepath.Join("testdata", "outline.txt")
	if os.Getenv("GSCD_TEST_UPDATE") != "" {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the outline is\n%s\nwant\n%s", b.String(), want)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{grouped(0), "0"}, {grouped(999), "999"}, {grouped(1000), "1,000"}, {grouped(-1234567), "-1,234,567"},
		{size(1023), "1023 B"}, {size(1536), "1.5 KiB"}, {short(1_250_000), "1.25M"},
		{percent(0, 0), "0 %"}, {percent(1, 1_000_000), "< 0.1 %"}, {percent(999_999, 1_000_000), "> 99.9 %"}, {percent(1, 3), "33.3 %"}, {percent(3, 3), "100 %"},
		{cut("a\nb\u202ec"), "a·b·c"}, {cut(strings.Repeat("é", MaxText+1)), strings.Repeat("é", MaxText) + "…"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for highest := int64(0); highest < 1_000_000; highest = highest*3/2 + 1 {
		step, top := nice(float64(highest))
		if top < float64(highest) || top/step > 5.01 || step <= 0 {
			t.Errorf("%d: step %v, top %v", highest, step, top)
		}
	}
}
