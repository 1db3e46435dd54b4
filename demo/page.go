package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/gscd-io/gscd/query/output"
)

// pageWidth is the widest line of text; on a narrower terminal lines are shorter.
const pageWidth = 88

// margin is the column in which the text begins, behind the time of day.
const margin = 8

// page prints the story: headings, paragraphs with a word in the margin, and
// tables between them. The first error of the writer is kept and ends it.
type page struct {
	out   io.Writer
	width int
	color bool
	err   error
}

func newPage(w io.Writer) *page {
	p := &page{width: pageWidth}
	if t := output.TerminalOf(w); t.Width > 0 {
		p.width, p.color = min(pageWidth, t.Width), t.Color
	}
	p.out = w
	return p
}

func (p *page) print(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, s)
	}
}

func (p *page) paint(s string, colors ...text.Color) string {
	if !p.color {
		return s
	}
	return text.Colors(colors).EscapeSeq() + s + text.Reset.EscapeSeq()
}

// title begins the page.
func (p *page) title(s string) { p.print(p.paint(s, text.Bold) + "\n\n") }

// heading begins a section.
func (p *page) heading(s string) { p.print("\n" + p.paint(s, text.Bold) + "\n\n") }

// at tells what happens outside at a time of day.
func (p *page) at(clock, format string, args ...any) {
	p.paragraph(p.paint(clock, text.FgCyan), utf8.RuneCountInString(clock), fmt.Sprintf(format, args...))
}

// gscd tells what the program does.
func (p *page) gscd(format string, args ...any) {
	p.paragraph(p.paint("gscd", text.Bold, text.FgGreen), len("gscd"), fmt.Sprintf(format, args...))
}

// say tells something else.
func (p *page) say(format string, args ...any) { p.paragraph("", 0, fmt.Sprintf(format, args...)) }

// paragraph prints words in lines, with a word of the given width in the margin.
func (p *page) paragraph(word string, width int, words string) {
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", margin-2-width) + word + "  ")
	column := margin
	for i, w := range strings.Fields(words) {
		n := utf8.RuneCountInString(w)
		switch {
		case i == 0:
		case column+1+n > p.width:
			b.WriteString("\n" + strings.Repeat(" ", margin))
			column = margin
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(w)
		column += n
	}
	p.print(b.String() + "\n")
}

// line prints a line as it is: one to be copied.
func (p *page) line(s string) { p.print(s + "\n") }

// gap is an empty line.
func (p *page) gap() { p.print("\n") }

// comment prints a line that a shell passes over.
func (p *page) comment(s string) { p.line(p.paint("# "+s, text.Faint)) }

// quoted gives a word as a POSIX shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-@+=,:", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
