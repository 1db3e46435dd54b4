package server

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var pageImages = flag.Bool("page.images", false, "write the pictures of docs/images anew, with Chromium")

// evil is a name that would be markup, were it not escaped.
const evil = `<script>alert("x")</script>&'`

// shown is a server with the pages of a table at work, one that has failed and,
// where a fault is not to be seen by people, one with an evil name.
func shown(t *testing.T, name, fault string) (url string) {
	t.Helper()
	spec := recorded(t, mem.New())
	spec.Name, spec.Address = name, "s3://lake/dim/user_dim"
	s := New(Options{Build: map[string]string{"version": "v1.0.0"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, []Spec{spec}) }()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.Close()
		cancel()
		<-done // it names the table that we say has failed
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if page, _ := fetchPage(t, web.URL+"/"); strings.Contains(page, `<td class="n">4</td>`) {
			break
		} else if time.Now().After(end) {
			t.Fatal(page)
		}
	}
	tables := []*table{{Spec: Spec{Name: "orders", Address: "s3://lake/orders"}, state: Failed,
		err: fmt.Errorf("table orders: %w: 213 of the last 10,000 records, the newest: decode: %s", ingest.ErrTooManyDeadLetters, fault)}}
	if fault == evil {
		tables = append(tables, &table{Spec: Spec{Name: evil, Address: evil}, state: Waiting})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range tables {
		x.s, x.watch, x.share, x.at = s, newWatch(x.Name), s.memory.share(), time.Now()
		s.tables = append(s.tables, x)
	}
	return web.URL
}

// element is one of a page, and where it lies.
type element struct {
	name  string
	attr  map[string]string
	text  string
	above []string
}

// elements reads a page. A page that is not well formed is a fault.
func elements(t *testing.T, page string) (all []*element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(page, "<!DOCTYPE html>")))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var stack []*element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			e := &element{name: x.Name.Local, attr: map[string]string{}}
			for _, a := range x.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			for _, s := range stack {
				e.above = append(e.above, s.name)
			}
			all, stack = append(all, e), append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			for _, s := range stack {
				s.text += string(x)
			}
		}
	}
}

// accessible checks what a reader of screens, or a keyboard, needs of a page.
func accessible(t *testing.T, page string) {
	t.Helper()
	all := elements(t, page)
	count := map[string]int{}
	level, ids := 0, map[string]bool{}
	for _, e := range all {
		count[e.name]++
		if id := e.attr["id"]; id != "" {
			if ids[id] {
				t.Errorf("the id %s is there twice", id)
			}
			ids[id] = true
		}
		for name := range e.attr {
			if name == "style" || strings.HasPrefix(name, "on") {
				t.Errorf("%s has %s: the policy forbids it", e.name, name)
			}
		}
		switch e.name {
		case "script", "style", "iframe", "form":
			t.Errorf("the page has %s", e.name)
		case "html":
			if e.attr["lang"] == "" {
				t.Error("no language")
			}
		case "h1", "h2", "h3":
			n := int(e.name[1] - '0')
			if n > level+1 || strings.TrimSpace(e.text) == "" {
				t.Errorf("heading %q of level %d after one of %d", e.text, n, level)
			}
			level = n
		case "th":
			if s := e.attr["scope"]; s != "col" && s != "row" {
				t.Errorf("a header of a table without scope: %q", e.text)
			}
		case "table":
			if !slices.Contains(e.above, "main") {
				t.Error("a table outside of main")
			}
		case "a":
			if strings.TrimSpace(e.text) == "" || e.attr["href"] == "" {
				t.Errorf("a link without text or address: %v", e.attr)
			}
		case "nav", "div":
			if (e.name == "nav" || e.attr["role"] == "region") && e.attr["aria-label"] == "" {
				t.Errorf("%s has no name", e.name)
			}
			if strings.Contains(e.attr["class"], "scroll") && e.attr["tabindex"] != "0" {
				t.Error("what can be scrolled can't be reached by keyboard")
			}
		case "img":
			if _, ok := e.attr["alt"]; !ok {
				t.Error("a picture without a text")
			}
		}
		// No state is told by its colour alone.
		if e.name == "span" && strings.HasPrefix(e.attr["class"], "state ") && !strings.Contains(e.text, strings.TrimPrefix(e.attr["class"], "state ")) {
			t.Errorf("a state without its name: %v %q", e.attr, e.text)
		}
	}
	for _, once := range []string{"html", "title", "h1", "main", "header", "nav", "footer"} {
		if count[once] != 1 {
			t.Errorf("%d elements %s", count[once], once)
		}
	}
	if count["table"] != count["caption"] {
		t.Errorf("%d tables, %d captions", count["table"], count["caption"])
	}
	if first := slices.IndexFunc(all, func(e *element) bool { return e.name == "a" }); first < 0 || all[first].attr["href"] != "#main" || !ids["main"] {
		t.Error("the first link does not lead to the content")
	}
}

func fetchPage(t *testing.T, url string) (string, http.Header) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d %v %s", url, resp.StatusCode, err, body)
	}
	return string(body), resp.Header
}

// whole says what the pages must show, in a browser or not.
func whole(t *testing.T, overview, table, failed string) {
	t.Helper()
	for _, page := range []string{overview, table, failed} {
		accessible(t, page)
		if strings.Contains(page, "<script") {
			t.Errorf("a name is markup:\n%s", page)
		}
	}
	for page, wants := range map[string][]string{
		overview: {"2022-07-17", "2022-07-16", "seal.proof is any, and no partition has brought anything at or after 2022-07-18T00:00:00Z", `href="/tables/t"`, "The table has stopped with an error", "✗", "failed", "&lt;script&gt;alert("},
		table: {"What holds the seal of 2022-07-17", "<code>proof</code>", "What to do:", "Records behind", "2022-07-17T00:11:00Z", "July 2022",
			"<caption>The newest labels, the newest first</caption>", "v1", "no load"},
		failed: {"<code>error</code>", "too many dead letters: 213 of", "gscd dead-letter list"},
	} {
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("no %q in\n%s", want, page)
			}
		}
	}
	var cells []string
	for _, e := range elements(t, table) {
		if e.name == "td" && strings.HasPrefix(e.attr["class"], "day ") {
			cells = append(cells, strings.Join(strings.Fields(e.text), " "))
		}
	}
	if len(cells) != 2 || cells[0] != "16 ✓ sealed v1 no load" || cells[1] != "17 ○ open" {
		t.Errorf("days %q", cells)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	url := shown(t, "t", evil)
	overview, head := fetchPage(t, url+"/")
	table, _ := fetchPage(t, url+"/tables/t")
	failed, _ := fetchPage(t, url+"/tables/orders")
	if head.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("header %v", head)
	}
	whole(t, overview, table, failed)
	if page, _ := fetchPage(t, url+"/tables/%3Cscript%3Ealert%28%22x%22%29%3C%2Fscript%3E&%27"); !strings.Contains(page, "<h1>Table &lt;script&gt;") {
		t.Errorf("the table with an evil name:\n%s", page)
	}
	if !strings.Contains(overview, `href="/tables/%3Cscript%3E`) {
		t.Error("no link to the table with an evil name")
	}
}

// The days of a map are drawn where they belong, and tell what is special.
func TestCalendarPage(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := cal.Parse("2022-03-28")
	var days []day
	for i := range snapshotter.Label(100) {
		d := day{Entry: savepoint.Entry{Label: first + i, Name: cal.Name(first + i), State: savepoint.Sealed, Version: int64(i) * 1000}}
		d.seal = &sealSummary{sealedAt: "2022-07-17T00:10:00Z", rows: 1234567, late: int64(i % 2), attributes: []string{"incomplete"}}
		days = append(days, d)
	}
	days[50].State, days[50].seal, days[50].To, days[50].At = savepoint.RolledBack, nil, "2022-05-16", "2022-05-20T00:00:00Z"
	days[51] = day{Entry: savepoint.Entry{Name: days[51].Name, State: savepoint.DeletedOne, Version: 51_000, Policy: "keep 90 days"}}
	days[99] = day{Entry: savepoint.Entry{Name: days[99].Name, State: savepoint.Open, Version: 100_000}}
	days = slices.Insert(days, 51, day{Entry: savepoint.Entry{Name: days[50].Name + "@7", State: savepoint.RolledBack, Version: 7, Kept: true}})
	var v tableView
	v.calendar(days)
	if len(v.Months) != 4 || v.Months[0].Name != "July 2022" || v.Months[3].Name != "April 2022" || len(v.Days) != 101 || v.Days[0].Name != "2022-07-05" {
		t.Fatalf("%d months, the first %s, %d days", len(v.Months), v.Months[0].Name, len(v.Days))
	}
	// 1 July 2022 was a Friday.
	if w := v.Months[0].Weeks[0]; w[4].Name != "2022-07-01" || w[3].Name != "" || w[6].Name != "2022-07-03" || len(v.Months[0].Weeks) != 2 {
		t.Errorf("the first week of July: %+v", w)
	}
	if d := v.Months[0].Weeks[0][4]; d.State != "sealed" || d.Version != "95,000" || d.Late != "1" || d.Note != "incomplete" || d.Rows != "1,234,567" {
		t.Errorf("%+v", d)
	}
	if d := v.Months[0].Weeks[1][1]; d.State != "open" || d.Version != "" {
		t.Errorf("%+v", d)
	}
	for _, d := range v.Days {
		switch d.Name {
		case "2022-05-17":
			if d.Note != "rolled back to 2022-05-16 at 2022-05-20T00:00:00Z" || d.Mark != "↶" {
				t.Errorf("%+v", d)
			}
		case "2022-05-18":
			if d.Note != "deleted by the policy keep 90 days" || d.State != "deleted" {
				t.Errorf("%+v", d)
			}
		case "2022-05-17@7":
			if d.Version != "7" {
				t.Errorf("%+v", d)
			}
		}
	}
}

// Text can be read on its background: 4.5 to 1, as WCAG 2 wants.
func TestContrast(t *testing.T) {
	luminance := func(hex string) float64 {
		var sum float64
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	pairs := 0
	for _, rule := range regexp.MustCompile(`(?s)([^{}]*)\{([^{}]*)\}`).FindAllStringSubmatch(string(pageStyle), -1) {
		fore := regexp.MustCompile(`(?:^|[ ;])color: #([0-9a-f]{6})`).FindStringSubmatch(rule[2])
		back := regexp.MustCompile(`background: #([0-9a-f]{6})`).FindStringSubmatch(rule[2])
		if (fore == nil) != (back == nil) {
			t.Errorf("%s has one colour of a pair", rule[1])
		}
		if fore == nil || back == nil {
			continue
		}
		pairs++
		light, dark := luminance(fore[1]), luminance(back[1])
		if light < dark {
			light, dark = dark, light
		}
		if ratio := (light + 0.05) / (dark + 0.05); ratio < 4.5 {
			t.Errorf("%s: contrast %.2f", strings.TrimSpace(rule[1]), ratio)
		}
	}
	if pairs < 10 {
		t.Errorf("%d pairs of colours", pairs)
	}
}

// chromium runs the browser, and gives what it printed.
func chromium(t *testing.T, args ...string) string {
	t.Helper()
	name := ""
	for _, candidate := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(candidate); err == nil {
			name = found
			break
		}
	}
	if name == "" {
		t.Skip("no Chromium on this machine: the status page is not looked at in a browser")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + t.TempDir()}, args...)...)
	c.WaitDelay = time.Second
	var faults strings.Builder
	c.Stderr = &faults
	out, err := c.Output()
	if err != nil {
		t.Fatalf("chromium %q: %v\n%s", args, err, faults.String())
	}
	return string(out)
}

// In a real browser the pages have what they have on paper: nothing is lost to
// the policy, and the style sheet is taken.
func TestPageInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: a browser is started")
	}
	t.Parallel()
	url := shown(t, "t", evil)
	dom := func(page string) string { return chromium(t, "--dump-dom", url+page) }
	whole(t, dom("/"), dom("/tables/t"), dom("/tables/orders"))
	if !*pageImages {
		return
	}
	url = shown(t, "user_dim", "the value is no JSON")
	for name, page := range map[string]string{"status-tables": "/", "status-table": "/tables/user_dim"} {
		size := map[string]string{"status-tables": "1280,560", "status-table": "1280,1180"}[name]
		file, err := filepath.Abs("../docs/images/" + name + ".png")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		chromium(t, "--screenshot="+file, "--window-size="+size, url+page)
		if info, err := os.Stat(file); err != nil || info.Size() > 150<<10 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
}
