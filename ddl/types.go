package ddl

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// written is a column's type as its statement has it.
type written struct {
	base               string   // "int", "varchar", "text": the server's own name
	numbers            []string // in parentheses: length, digits
	labels             []string // of enum and set
	unsigned, zerofill bool
	charset            string // that it names; empty: the table's
	compressed, serial bool
}

// synonyms are the names of one word that a server replaces.
var synonyms = map[string]string{
	"int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint", "integer": "int", "int4": "int", "int8": "bigint",
	"dec": "decimal", "numeric": "decimal", "fixed": "decimal", "float4": "float", "float8": "double", "character": "char",
	"varcharacter": "varchar", "varchar2": "varchar", "clob": "longtext", "raw": "varbinary", "geomcollection": "geometrycollection",
	"nvarchar": "varchar", "nchar": "char", "bool": "tinyint", "boolean": "tinyint",
}

// typeOf takes a type: its name, what it has in parentheses, and the words that
// follow it directly.
func (p *parser) typeOf() written {
	if p.atEnd() || p.peek().kind == text && !p.peek().double {
		p.fail("a type is missing")
	}
	w := written{base: strings.ToLower(p.identifier())}
	if strings.HasSuffix(w.base, "_schema") && p.takeSymbol(".") { // mariadb_schema.date
		w.base = strings.ToLower(p.identifier())
	}
	oracle := p.session.MariaDB && p.session.SQLMode&modeOracle != 0
	switch w.base {
	case "bool", "boolean":
		w.numbers = []string{"1"}
	case "serial":
		return written{base: "bigint", unsigned: true, serial: true}
	case "nvarchar", "nchar":
		w.charset = utf8mb3
	case "national":
		w.charset = utf8mb3
		w.base = strings.ToLower(p.identifier())
	case "long":
		switch {
		case p.takeAny("VARBINARY"):
			w.base = "mediumblob"
		default:
			if p.takeAny("CHAR", "CHARACTER") {
				p.takeAny("VARYING")
			} else {
				p.takeAny("VARCHAR", "VARCHARACTER")
			}
			w.base = "mediumtext"
		}
	case "number":
		w.base = "decimal"
		if !p.peek().symbol("(") {
			w.base = "double"
		}
	case "date":
		if oracle {
			w.base = "datetime"
		}
	case "blob":
		if oracle {
			w.base = "longblob"
		}
	case "real":
		w.base = "double"
		if p.session.SQLMode&1 != 0 {
			w.base = "float"
		}
	}
	if s, ok := synonyms[w.base]; ok {
		w.base = s
	}
	if w.base == "double" {
		p.takeAny("PRECISION")
	}
	if w.base == "char" && p.takeAny("VARYING", "VARCHAR", "VARCHARACTER") {
		w.base = "varchar"
	}
	if p.peek().symbol("(") {
		p.arguments(&w)
	}
	for {
		switch {
		case p.takeAny("UNSIGNED"):
			w.unsigned = true
		case p.takeAny("ZEROFILL"):
			w.unsigned, w.zerofill = true, true
		case p.takeAny("SIGNED"):
		case p.charset(&w):
		case p.session.MariaDB && p.takeAny("COMPRESSED"):
			p.takeSymbol("=")
			if p.peek().is("ZLIB") {
				p.next()
			}
			w.compressed = true
		default:
			return w
		}
	}
}

func (p *parser) arguments(w *written) {
	p.next()
	for !p.takeSymbol(")") {
		switch t := p.next(); {
		case t.kind == end:
			p.fail("a type is not closed")
		case t.symbol(","):
		case w.base == "enum" || w.base == "set":
			p.label(w, t)
		default:
			w.numbers = append(w.numbers, t.text)
		}
	}
}

func (p *parser) label(w *written, t token) {
	label := t.text
	if t.kind == word {
		switch {
		case strings.EqualFold(label, "x") && p.peek().kind == text:
			label = fromHex(p.next().text)
		case len(label) > 2 && (label[:2] == "0x" || label[:2] == "0X"):
			label = fromHex(label[2:])
		}
	}
	w.labels = append(w.labels, strings.TrimRight(label, " "))
}

// fromHex is the text of hexadecimal digits; that of another charset stays digits.
func fromHex(digits string) string {
	if len(digits)%2 == 1 {
		digits = "0" + digits
	}
	var b strings.Builder
	for i := 0; i < len(digits); i += 2 {
		n, err := strconv.ParseUint(digits[i:i+2], 16, 8)
		if err != nil {
			return "0x" + digits
		}
		b.WriteByte(byte(n))
	}
	if !utf8.ValidString(b.String()) {
		return "0x" + digits
	}
	return b.String()
}

const utf8mb3 = "utf8mb3"

// charset takes an attribute of a type that says its charset.
func (p *parser) charset(w *written) bool {
	switch {
	case p.take("CHARACTER", "SET"), p.take("CHAR", "SET"), p.takeAny("CHARSET"):
		p.takeSymbol("=")
		w.charset = charsetName(p.next().text)
	case p.takeAny("COLLATE"):
		p.takeSymbol("=")
		if c := charsetOf(p.next().text); c != "" && w.charset == "" {
			w.charset = c
		}
	case p.takeAny("ASCII"):
		w.charset = "latin1"
	case p.takeAny("UNICODE"):
		w.charset = "ucs2"
	case p.takeAny("BYTE"):
		w.charset = "binary"
	case p.takeAny("BINARY"): // the charset's binary collation
	default:
		return false
	}
	return true
}

func charsetName(s string) string {
	s = strings.ToLower(s)
	if s == "utf8" {
		return utf8mb3
	}
	return s
}

// charsetOf is the charset of a collation; empty: of any.
func charsetOf(collation string) string {
	collation = strings.ToLower(collation)
	if collation == "binary" {
		return collation
	}
	c, _, _ := strings.Cut(collation, "_")
	if c == "uca1400" || c == "default" {
		return ""
	}
	return charsetName(c)
}

// bytesOf is the most bytes that a character takes.
func bytesOf(charset string) int {
	switch charset {
	case "", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return 4
	case utf8mb3, "ujis", "eucjpms":
		return 3
	case "big5", "sjis", "euckr", "gb2312", "gbk", "ucs2", "cp932":
		return 2
	}
	return 1
}

var texts, blobs = []string{"tinytext", "text", "mediumtext", "longtext"}, []string{"tinyblob", "blob", "mediumblob", "longblob"}

var widths = map[string][2]int{"tinyint": {4, 3}, "smallint": {6, 5}, "mediumint": {9, 8}, "int": {11, 10}, "bigint": {20, 20}}

// print is the type as COLUMN_TYPE has it, and the charset, in a table of a charset.
func (w *written) print(table string, session Session) (printed, charset string) {
	charset = w.charset
	if charset == "" {
		charset = table
	}
	first := ""
	if len(w.numbers) > 0 {
		first = w.numbers[0]
	}
	base := w.base
	switch base {
	case "char", "varchar":
		if first == "" {
			first = "1"
		}
		if charset == "binary" {
			if base = "binary"; w.base == "varchar" {
				base = "varbinary"
			}
		}
		if n, err := strconv.Atoi(first); err == nil && w.base == "varchar" && n*bytesOf(charset) > 65535 { // without a strict mode
			printed, charset = sized(n*bytesOf(charset), charset)
			return printed, charset
		}
		return base + "(" + first + ")" + w.packed(), charset
	case "tinytext", "text", "mediumtext", "longtext":
		if base == "text" && first != "" {
			if n, err := strconv.Atoi(first); err == nil {
				printed, charset = sized(n*bytesOf(charset), charset)
				return printed + w.packed(), charset
			}
		}
		if charset == "binary" {
			base = blobs[slices.Index(texts, base)]
		}
		return base + w.packed(), charset
	case "enum", "set":
		var b strings.Builder
		b.WriteString(base + "(")
		for i, l := range w.labels {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("'" + escapeLabel.Replace(l) + "'")
		}
		return b.String() + ")", charset
	case "json":
		if session.MariaDB {
			return "longtext", "utf8mb4"
		}
		return base, "utf8mb4"
	case "binary":
		if first == "" {
			first = "1"
		}
		return "binary(" + first + ")", "binary"
	case "varbinary":
		if n, err := strconv.Atoi(first); err == nil && n > 65535 {
			return sized(n, "binary")
		}
		return "varbinary(" + first + ")" + w.packed(), "binary"
	case "blob":
		if n, err := strconv.Atoi(first); err == nil {
			printed, charset = sized(n, "binary")
			return printed + w.packed(), charset
		}
		return base + w.packed(), "binary"
	case "tinyblob", "mediumblob", "longblob":
		return base + w.packed(), "binary"
	case "geometrycollection":
		if !session.MariaDB {
			base = "geomcollection"
		}
		return base, ""
	}
	return w.number(session), ""
}

var escapeLabel = strings.NewReplacer("'", "''", `\`, `\\`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)

func (w *written) packed() string {
	if w.compressed {
		return " /*M!100301 COMPRESSED*/"
	}
	return ""
}

// sized is the smallest text or blob for a number of bytes.
func sized(n int, charset string) (printed, as string) {
	of := texts
	if charset == "binary" {
		of = blobs
	}
	switch {
	case n < 1<<8:
		return of[0], charset
	case n < 1<<16:
		return of[1], charset
	case n < 1<<24:
		return of[2], charset
	}
	return of[3], charset
}

// number prints numbers, times and what else has no charset.
func (w *written) number(session Session) string {
	numbers := w.numbers
	base := w.base
	switch base {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		switch {
		case !session.MariaDB && !w.zerofill && !(base == "tinyint" && len(numbers) == 1 && numbers[0] == "1" && !w.unsigned):
			numbers = nil // MySQL 8 prints no width
		case len(numbers) == 0 || numbers[0] == "0":
			i := 0
			if w.unsigned {
				i = 1
			}
			numbers = []string{strconv.Itoa(widths[base][i])}
		}
	case "bit":
		if len(numbers) == 0 || numbers[0] == "0" {
			numbers = []string{"1"}
		}
	case "year":
		switch {
		case !session.MariaDB:
			numbers = nil
		case len(numbers) == 0 || numbers[0] != "2":
			numbers = []string{"4"}
		}
	case "decimal":
		switch {
		case len(numbers) == 0 || strings.Trim(strings.Join(numbers, ""), "0") == "":
			numbers = []string{"10", "0"}
		case len(numbers) == 1:
			numbers = []string{numbers[0], "0"}
		}
	case "float":
		if len(numbers) == 1 {
			if n, err := strconv.Atoi(numbers[0]); err == nil && n > 24 {
				base = "double"
			}
			numbers = nil
		}
	case "time", "datetime", "timestamp":
		if len(numbers) == 1 && numbers[0] == "0" {
			numbers = nil
		}
	}
	s := base
	if len(numbers) > 0 {
		for i, n := range numbers {
			if trimmed := strings.TrimLeft(n, "0"); trimmed != "" {
				numbers[i] = trimmed
			} else {
				numbers[i] = "0"
			}
		}
		s += "(" + strings.Join(numbers, ",") + ")"
	}
	if w.unsigned {
		s += " unsigned"
	}
	if w.zerofill {
		s += " zerofill"
	}
	return s
}

// converted is a type after CONVERT TO CHARACTER SET: a text may need a larger kind.
func converted(c *Column, to string) {
	if c.Charset == "" || c.Charset == "binary" {
		return
	}
	from := bytesOf(c.Charset)
	c.Charset = to
	base, more, _ := strings.Cut(c.Type, " ")
	i := slices.Index(texts, base)
	if to == "binary" {
		switch {
		case i >= 0:
			base = blobs[i]
		case strings.HasPrefix(base, "char"), strings.HasPrefix(base, "varchar"):
			base = strings.Replace(base, "char", "binary", 1)
		}
	} else if i >= 0 && i < 3 && bytesOf(to) > from {
		base = texts[i+1]
	}
	if c.Type = base; more != "" {
		c.Type += " " + more
	}
}
