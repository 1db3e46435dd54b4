package binlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// charset turns the bytes of a MySQL character set into UTF-8. A nil one is UTF-8.
type charset struct {
	name string
	// ascii: bytes below 0x80 are ASCII, so that such text needs no conversion.
	ascii bool
	// half are the characters of the bytes from 0x80 on, of sets of one byte.
	half []rune
	wide func(dst, b []byte) ([]byte, error)
	enc  encoding.Encoding
}

var errCharacter = errors.New("bytes that are no text of the column's character set")

// fits reports that the bytes are UTF-8 as they are.
func (c *charset) fits(b []byte) bool {
	if c.enc == nil && c.half == nil && c.wide == nil {
		return utf8.Valid(b)
	}
	return c.ascii && isASCII(b)
}

func isASCII(b []byte) bool {
	for _, x := range b {
		if x >= 0x80 {
			return false
		}
	}
	return true
}

// convert appends the text as UTF-8.
func (c *charset) convert(dst, b []byte) ([]byte, error) {
	switch {
	case c == nil:
		if !utf8.Valid(b) {
			return dst, errCharacter
		}
		return append(dst, b...), nil
	case c.half != nil:
		for _, x := range b {
			r := rune(x)
			if x >= 0x80 {
				r = c.half[x-0x80]
			} else if c.name == "swe7" {
				r = swe7(x)
			}
			if r == utf8.RuneError {
				return dst, fmt.Errorf("%w %s: %x", errCharacter, c.name, b)
			}
			dst = utf8.AppendRune(dst, r)
		}
		return dst, nil
	case c.wide != nil:
		out, err := c.wide(dst, b)
		if err != nil {
			return dst, fmt.Errorf("%w %s: %x", err, c.name, b)
		}
		return out, nil
	case c.enc != nil:
		out, err := c.enc.NewDecoder().Bytes(b)
		if err != nil || bytes.ContainsRune(out, utf8.RuneError) {
			return dst, fmt.Errorf("%w %s: %x", errCharacter, c.name, b)
		}
		return append(dst, out...), nil
	}
	if !utf8.Valid(b) {
		return dst, fmt.Errorf("%w %s: %x", errCharacter, c.name, b)
	}
	return append(dst, b...), nil
}

// charsets are found once; charsetOf gives nil of a name that is not known.
var charsets = sync.OnceValue(func() map[string]*charset {
	all := map[string]*charset{}
	for _, name := range []string{"utf8mb4", "utf8mb3", "utf8", "ascii", "binary"} {
		all[name] = &charset{name: name, ascii: true}
	}
	for name, half := range highHalves {
		all[name] = &charset{name: name, ascii: name != "swe7", half: []rune(half)}
	}
	for name, enc := range map[string]encoding.Encoding{
		"gbk": simplifiedchinese.GBK, "gb2312": simplifiedchinese.GBK, "gb18030": simplifiedchinese.GB18030,
		"big5": traditionalchinese.Big5, "sjis": japanese.ShiftJIS, "cp932": japanese.ShiftJIS,
		"ujis": japanese.EUCJP, "eucjpms": japanese.EUCJP, "euckr": korean.EUCKR,
	} {
		all[name] = &charset{name: name, ascii: true, enc: enc}
	}
	all["ucs2"] = &charset{name: "ucs2", wide: func(dst, b []byte) ([]byte, error) { return fromUTF16(dst, b, 0, 1) }}
	all["utf16"] = all["ucs2"]
	all["utf16le"] = &charset{name: "utf16le", wide: func(dst, b []byte) ([]byte, error) { return fromUTF16(dst, b, 1, 0) }}
	all["utf32"] = &charset{name: "utf32", wide: fromUTF32}
	return all
})

func charsetOf(name string) *charset { return charsets()[strings.ToLower(name)] }

// fromUTF16 takes pairs of bytes, of which hi and lo are the places.
func fromUTF16(dst, b []byte, hi, lo int) ([]byte, error) {
	if len(b)%2 != 0 {
		return dst, errCharacter
	}
	for i := 0; i < len(b); i += 2 {
		r := rune(b[i+hi])<<8 | rune(b[i+lo])
		if utf16.IsSurrogate(r) {
			if i+4 > len(b) {
				return dst, errCharacter
			}
			i += 2
			if r = utf16.DecodeRune(r, rune(b[i+hi])<<8|rune(b[i+lo])); r == utf8.RuneError {
				return dst, errCharacter
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, nil
}

func fromUTF32(dst, b []byte) ([]byte, error) {
	if len(b)%4 != 0 {
		return dst, errCharacter
	}
	for ; len(b) > 0; b = b[4:] {
		r := rune(bigEndian(b[:4]))
		if bigEndian(b[:4]) > utf8.MaxRune || !utf8.ValidRune(r) {
			return dst, errCharacter
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, nil
}

// swe7 gives the letters that Swedish ASCII has in place of brackets.
func swe7(x byte) rune {
	const from, to = "@[\\]^`{|}~", "ÉÄÖÅÜéäöåü"
	if i := strings.IndexByte(from, x); i >= 0 {
		return []rune(to)[i]
	}
	return rune(x)
}

// maxBytes is the most bytes that a character has.
func maxBytes(charset string) int {
	switch charset {
	case "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return 4
	case "utf8mb3", "utf8", "ujis", "eucjpms":
		return 3
	case "ucs2", "gbk", "gb2312", "big5", "sjis", "cp932", "euckr":
		return 2
	}
	return 1
}

// collationRanges tell the character set of a collation's number: from, to.
var collationRanges = []struct {
	from, to uint64
	charset  string
}{
	{1, 1, "big5"}, {2, 2, "latin2"}, {3, 3, "dec8"}, {4, 4, "cp850"}, {5, 5, "latin1"}, {6, 6, "hp8"}, {7, 7, "koi8r"}, {8, 8, "latin1"},
	{9, 9, "latin2"}, {10, 10, "swe7"}, {11, 11, "ascii"}, {12, 12, "ujis"}, {13, 13, "sjis"}, {14, 14, "cp1251"}, {15, 15, "latin1"},
	{16, 16, "hebrew"}, {18, 18, "tis620"}, {19, 19, "euckr"}, {20, 20, "latin7"}, {21, 21, "latin2"}, {22, 22, "koi8u"}, {23, 23, "cp1251"},
	{24, 24, "gb2312"}, {25, 25, "greek"}, {26, 26, "cp1250"}, {27, 27, "latin2"}, {28, 28, "gbk"}, {29, 29, "cp1257"}, {30, 30, "latin5"},
	{31, 31, "latin1"}, {32, 32, "armscii8"}, {33, 33, "utf8mb3"}, {34, 34, "cp1250"}, {35, 35, "ucs2"}, {36, 36, "cp866"}, {37, 37, "keybcs2"},
	{38, 38, "macce"}, {39, 39, "macroman"}, {40, 40, "cp852"}, {41, 42, "latin7"}, {43, 43, "macce"}, {44, 44, "cp1250"}, {45, 46, "utf8mb4"},
	{47, 49, "latin1"}, {50, 52, "cp1251"}, {53, 53, "macroman"}, {54, 55, "utf16"}, {56, 56, "utf16le"}, {57, 57, "cp1256"}, {58, 59, "cp1257"},
	{60, 61, "utf32"}, {62, 62, "utf16le"}, {63, 63, "binary"}, {64, 64, "armscii8"}, {65, 65, "ascii"}, {66, 66, "cp1250"}, {67, 67, "cp1256"},
	{68, 68, "cp866"}, {69, 69, "dec8"}, {70, 70, "greek"}, {71, 71, "hebrew"}, {72, 72, "hp8"}, {73, 73, "keybcs2"}, {74, 74, "koi8r"},
	{75, 75, "koi8u"}, {76, 76, "utf8mb3"}, {77, 77, "latin2"}, {78, 78, "latin5"}, {79, 79, "latin7"}, {80, 80, "cp850"}, {81, 81, "cp852"},
	{82, 82, "swe7"}, {83, 83, "utf8mb3"}, {84, 84, "big5"}, {85, 85, "euckr"}, {86, 86, "gb2312"}, {87, 87, "gbk"}, {88, 88, "sjis"},
	{89, 89, "tis620"}, {90, 90, "ucs2"}, {91, 91, "ujis"}, {92, 93, "geostd8"}, {94, 94, "latin1"}, {95, 96, "cp932"}, {97, 98, "eucjpms"},
	{99, 99, "cp1250"}, {101, 124, "utf16"}, {128, 159, "ucs2"}, {160, 183, "utf32"}, {192, 215, "utf8mb3"}, {223, 223, "utf8mb3"},
	{224, 247, "utf8mb4"}, {248, 250, "gb18030"}, {255, 323, "utf8mb4"},
	{576, 578, "utf8mb3"}, {608, 610, "utf8mb4"}, {640, 642, "ucs2"}, {672, 674, "utf16"}, {736, 738, "utf32"}, // MariaDB
}

// uca1400 are the blocks of 256 from 2048 on, MariaDB's collations of Unicode 14.
var uca1400 = []string{"utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"}

// charsetName gives the character set of a collation, "" of one that is not known.
func charsetName(collation uint64) string {
	if collation >= 2048 && collation < 2048+256*uint64(len(uca1400)) {
		return uca1400[(collation-2048)/256]
	}
	if collation >= 1024 && collation < 2048 { // MariaDB's without padding
		collation -= 1024
	}
	for _, r := range collationRanges {
		if collation >= r.from && collation <= r.to {
			return r.charset
		}
	}
	return ""
}
