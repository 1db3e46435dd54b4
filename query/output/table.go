package output

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A page is what a table holds at once: its first page decides the widths of
// the columns, later ones are printed below it with the same widths.
const (
	pageRows  = 1000
	pageBytes = 1 << 20
)

// minColumnWidth is the least width to which a column is cut on a terminal.
const minColumnWidth = 6

// tableSink draws boxes. On a terminal cells are cut so that a line fits; cut
// ones end in "…". Elsewhere every cell is printed whole, and a later page that
// has wider cells than the first one is wider.
type tableSink struct {
	out          io.Writer
	names        []string
	rightAligned []bool
	terminal     Terminal

	row       table.Row
	page      []table.Row
	pageBytes int
	widths    []int  // nil until the first page is printed
	bottom    string // the line that closes what was printed last
}

func newTableSink(w io.Writer, names []string, rightAligned []bool, terminal Terminal) *tableSink {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = printable([]byte(name))
	}
	return &tableSink{out: w, names: shown, rightAligned: rightAligned, terminal: terminal}
}

func (s *tableSink) wantsJSON() bool { return false }

func (s *tableSink) begin() error {
	s.row = make(table.Row, 0, len(s.names))
	return nil
}

func (s *tableSink) cell(data []byte) {
	shown := printable(data)
	s.pageBytes += len(shown)
	s.row = append(s.row, shown)
}

func (s *tableSink) null() {
	if s.terminal.Color {
		s.row = append(s.row, text.Faint.Sprint("null"))
		return
	}
	s.row = append(s.row, "null")
}

func (s *tableSink) end() error {
	s.page = append(s.page, s.row)
	if len(s.page) < pageRows && s.pageBytes < pageBytes {
		return nil
	}
	return s.flush()
}

func (s *tableSink) close() error {
	if len(s.page) > 0 || s.widths == nil {
		if err := s.flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(s.out, s.bottom)
	return err
}

// flush prints the page without its closing line, which close prints.
func (s *tableSink) flush() error {
	first := s.widths == nil
	if first {
		s.widths = s.measure()
	}
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SetColumnConfigs(s.columnConfigs())
	if first {
		header := make(table.Row, len(s.names))
		for i, name := range s.names {
			header[i] = name
		}
		t.AppendHeader(header)
	}
	t.AppendRows(s.page)
	lines := strings.Split(t.Render(), "\n")
	s.page, s.pageBytes = nil, 0
	s.bottom = lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	if !first {
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(s.out, strings.Join(lines, "\n"))
	return err
}

func (s *tableSink) columnConfigs() []table.ColumnConfig {
	configs := make([]table.ColumnConfig, len(s.names))
	for i := range configs {
		c := table.ColumnConfig{Number: i + 1, WidthMin: s.widths[i], AlignHeader: text.AlignLeft}
		if s.rightAligned != nil && s.rightAligned[i] {
			c.Align, c.AlignHeader = text.AlignRight, text.AlignRight
		}
		if s.terminal.Width > 0 {
			c.WidthMax = s.widths[i]
			c.WidthMaxEnforcer = func(cell string, width int) string { return text.Snip(cell, width, "…") }
		}
		if s.terminal.Color {
			c.ColorsHeader = text.Colors{text.Bold}
		}
		configs[i] = c
	}
	return configs
}

// measure gives the widths that the page in hand asks for, cut to the terminal.
func (s *tableSink) measure() []int {
	widths := make([]int, len(s.names))
	for i, name := range s.names {
		widths[i] = text.StringWidth(name)
	}
	for _, row := range s.page {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(cell.(string)))
		}
	}
	if s.terminal.Width > 0 {
		fit(widths, s.terminal.Width)
	}
	return widths
}

// fit cuts the widest columns, all to one width, until a line of the table
// ("│ a │ b │") has at most the given width, but none below minColumnWidth.
func fit(widths []int, line int) {
	line -= 3*len(widths) + 1
	total, limit := 0, minColumnWidth
	for _, w := range widths {
		total += w
		limit = max(limit, w)
	}
	for ; total > line && limit > minColumnWidth; limit-- {
		for _, w := range widths {
			if w >= limit {
				total--
			}
		}
	}
	for i := range widths {
		widths[i] = min(widths[i], limit)
	}
}

// printable gives a text that a terminal shows as it is: control characters,
// line breaks and invisible characters come out as escapes.
func printable(data []byte) string {
	clean := true
	for _, c := range data {
		if c < 0x20 || c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return string(data)
	}
	var b strings.Builder
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, data[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		data = data[size:]
	}
	return b.String()
}
