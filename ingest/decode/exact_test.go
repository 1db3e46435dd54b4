package decode

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"math/rand/v2"
	"pgregory.net/rapid"
	"strconv"
)

// twosComplement is the shortest big-endian form, as Java's BigInteger gives it.
func twosComplement(n *big.Int) []byte {
	for size := uint(1); ; size++ {
		half := new(big.Int).Lsh(big.NewInt(1), 8*size-1)
		if n.Cmp(half) >= 0 || n.Cmp(new(big.Int).Neg(half)) < 0 {
			continue
		}
		if n.Sign() < 0 {
			n = new(big.Int).Add(n, new(big.Int).Lsh(half, 1))
		}
		return n.FillBytes(make([]byte, size))
	}
}

// TestDecimals: bytes, plain text and exponent form of a decimal give the same
// cell, which is math/big's; one digit too many is an error.
func TestDecimals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		precision := rapid.IntRange(1, maxDigits).Draw(t, "precision")
		scale := rapid.IntRange(0, precision).Draw(t, "scale")
		digits := rapid.StringMatching(fmt.Sprintf(`-?[0-9]{1,%d}`, precision+1)).Draw(t, "digits")
		n, _ := new(big.Int).SetString(digits, 10)
		fits := len(new(big.Int).Abs(n).String()) <= precision
		want, _ := schema.DecimalValue(n)
		plain := plainDecimal(n.Sign() < 0, new(big.Int).Abs(n).String(), scale)
		arena := &change.Arena{}
		b := twosComplement(n)
		if pad := rapid.IntRange(0, 20).Draw(t, "pad"); n.Sign() >= 0 {
			b = append(make([]byte, pad), b...)
		}
		for form, read := range map[string]func() (schema.Value, error){
			"bytes": func() (schema.Value, error) { return decimalBytes(b, precision, scale, arena) },
			"plain": func() (schema.Value, error) { return parseDecimal(plain, precision, scale, arena) },
			"exponent": func() (schema.Value, error) {
				return parseDecimal(fmt.Sprintf("%se-%d", digits, scale), precision, scale, nil)
			},
			"shifted": func() (schema.Value, error) {
				return parseDecimal(fmt.Sprintf("%s00e-%d", digits, scale+2), precision, scale, nil)
			},
		} {
			got, err := read()
			if fits != (err == nil) || fits && got != want {
				t.Fatalf("%s of %s as decimal(%d,%d): %v, %v; want %v", form, digits, precision, scale, got, err, want)
			}
			if fits && got.DecimalText(uint8(scale)) != plain {
				t.Fatalf("prints %s, want %s", got.DecimalText(uint8(scale)), plain)
			}
		}
		for form, read := range map[string]func() (string, error){
			"bytes": func() (string, error) { return longDecimalBytes(b, precision, scale) },
			"text":  func() (string, error) { return longDecimalText(plain, precision, scale) },
		} {
			if got, err := read(); fits != (err == nil) || fits && got != plain {
				t.Fatalf("%s of %s: %s, %v; want %s", form, digits, got, err, plain)
			}
		}
	})
}

func TestDecimalTexts(t *testing.T) {
	for _, s := range []string{"", "-", "+", ".", "e1", "1e", "1e+", "1 ", " 1", "1,5", "0x1", "--1", "1.2.3", "NaN", "1e5e5", "½"} {
		if v, err := parseDecimal(s, 38, 0, nil); err != errNotDecimal {
			t.Errorf("%q: %v, %v", s, v, err)
		}
	}
	for s, want := range map[string]string{"+1": "1.00", ".5": "0.50", "5.": "5.00", "-0": "0.00", "-0.00": "0.00", "0e5": "0.00", "007": "7.00", "1E+2": "100.00", "12e-1": "1.20"} {
		v, err := parseDecimal(s, 5, 2, nil)
		if err != nil || v.DecimalText(2) != want {
			t.Errorf("%q: %s, %v; want %s", s, v.DecimalText(2), err, want)
		}
	}
}

func TestBase64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		text := []byte(base64.StdEncoding.EncodeToString(raw))
		got, err := decodeBase64(make([]byte, len(text)/4*3), text)
		if err != nil || string(got) != string(raw) {
			t.Fatalf("%s: %x, %v", text, got, err)
		}
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		bad := string(text[:at]) + strings.Repeat("\n", rapid.IntRange(1, 5).Draw(t, "ends")) + string(text[at:])
		if got, err := decodeBase64(make([]byte, len(bad)/4*3+3), []byte(bad)); err == nil {
			t.Fatalf("%q: %x", bad, got)
		}
	})
}

// TestDates: dates and times of the years 0 to 9999 are those of package time.
func TestDates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62167219200, 253402300799).Draw(t, "seconds"), 0).UTC().Add(time.Duration(rapid.Int64Range(0, 999999).Draw(t, "micros")) * time.Microsecond)
		days, zero, err := parseDate(at.Format("2006-01-02"))
		if want := floorDiv(at.Unix(), 86400); err != nil || zero || days != want {
			t.Fatalf("%s: %d, %v, %v; want %d", at, days, zero, err, want)
		}
		for layout, zoned := range map[string]bool{"2006-01-02 15:04:05.999999": false, "2006-01-02T15:04:05.000000": false, "2006-01-02T15:04:05.999999Z07:00": true} {
			if got, zero, err := parseTimestamp(at.Format(layout), zoned); err != nil || zero || got != at.UnixMicro() {
				t.Fatalf("%s: %d, %v, %v; want %d", at.Format(layout), got, zero, err, at.UnixMicro())
			}
		}
		zone := time.FixedZone("", rapid.IntRange(-18*60, 18*60).Draw(t, "offset")*60)
		if local := at.In(zone); local.Year() >= 0 && local.Year() <= 9999 {
			text := local.Format("2006-01-02T15:04:05.999999-07:00")
			if got, _, err := parseTimestamp(text, true); err != nil || got != at.UnixMicro() {
				t.Fatalf("%s: %d, %v; want %d", text, got, err, at.UnixMicro())
			}
		}
		micros := rapid.Int64Range(-3020399999999, 3020399999999).Draw(t, "time")
		if got, err := parseTime(clockText(micros)); err != nil || got != micros {
			t.Fatalf("%s: %d, %v; want %d", clockText(micros), got, err, micros)
		}
	})
}

func TestBadTimes(t *testing.T) {
	for _, s := range []string{"", "2022", "2022-13-01", "2022-02-30", "2022-00-32", "2022-04-31", "22-01-01", "2022-1-1", "2022/01/01", "2022-01-01x", "+2022-01-01", "20220101"} {
		if days, zero, err := parseDate(s); err != errDate {
			t.Errorf("%q: %d, %v, %v", s, days, zero, err)
		}
	}
	for _, s := range []string{"2022-07-15", "2022-07-15 24:00:00", "2022-07-15 00:60:00", "2022-07-15 00:00:60", "2022-07-15 00:00:00.", "2022-07-15_00:00:00",
		"2022-07-15 00:00:00 ", "2022-07-15 00:00:00+", "2022-07-15 00:00:00+19:00", "2022-07-15 00:00:00.1234567Z", "2022-07-15 00"} {
		for _, zoned := range []bool{false, true} {
			if n, zero, err := parseTimestamp(s, zoned); err == nil {
				t.Errorf("%q: %d, %v", s, n, zero)
			}
		}
	}
	if n, _, err := parseTimestamp("2022-07-15 00:00:00.123456000Z", true); err != nil || n%microsPerSecond != 123456 {
		t.Errorf("zeros beyond microseconds: %d, %v", n, err)
	}
	for _, s := range []string{"", "-", "1", "1:2", "10:60:00", "10:00:60", "12345:00:00", "10:00:00.", "10:00:00x", "10:00:00.0000001"} {
		if n, err := parseTime(s); err == nil {
			t.Errorf("%q: %d", s, n)
		}
	}
}

// FuzzTypes: no type text makes the parser panic, and what it takes has a type.
func FuzzTypes(f *testing.F) {
	for _, s := range []string{"int(11) unsigned zerofill", "decimal(10,2)", "enum('a','b')", "varchar(5) character set x collate y", "double precision", "bit(64)", "((", "enum()"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if spec, err := ParseColumnType(s); err == nil && spec.Type.Primitive == schema.Unknown {
			t.Fatalf("%q has no type", s)
		}
	})
}

// FuzzText: date, time and number texts never panic.
func FuzzText(f *testing.F) {
	for _, s := range []string{"2022-07-15T06:33:02.325Z", "-838:59:59.000000", "1e-5", "0000-00-00", "-1.50E+3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, to := range []schema.Type{schema.Of(schema.Date), schema.Of(schema.Timestamp), schema.Of(schema.TimestampNTZ), schema.Decimal(38, 10)} {
			if v, err := Fit(schema.StringValue(s), schema.Type{}, to); err == nil && v.Kind != schema.KindOf(to) && !v.IsNull() {
				t.Fatalf("%q as %s has kind %d", s, to, v.Kind)
			}
		}
		_, _ = parseTime(s)
		_, _ = longDecimalText(s, 65, 30)
	})
}

// TestPlainForms: the short ways to read times and decimals say what the long ones say.
func TestPlainForms(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for range 20_000 {
		at := time.Date(1+r.IntN(9999), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1_000_000)*1000, time.UTC)
		s := at.Format([]string{"2006-01-02 15:04:05.000000", "2006-01-02T15:04:05.999999Z", "2006-01-02 15:04:05"}[r.IntN(3)])
		if got, ok := plainTimestamp(s); !ok || strings.Contains(s, ".") && got != at.UnixMicro() || got/microsPerSecond*microsPerSecond != got && !strings.Contains(s, ".") {
			t.Fatalf("%s: %d, %v", s, got, ok)
		}
		n := r.Int64N(1<<50) >> r.IntN(50)
		scale, precision := r.IntN(7), 1+r.IntN(20)
		text := strconv.FormatInt(n, 10)
		if at := r.IntN(len(text) + 1); at > 0 && at < len(text) {
			text = text[:at] + "." + text[at:]
		}
		if r.IntN(2) == 0 {
			text = "-" + text
		}
		short, ok := shortDecimal(text, precision, scale)
		long, err := parseDecimal(text+"e0", precision, scale, nil) // an exponent takes the long way
		if ok && (err != nil || long.I != short || len(long.S) > 0) {
			t.Fatalf("%s as decimal(%d,%d): %d, the long way %+v, %v", text, precision, scale, short, long, err)
		}
	}
	for _, s := range []string{"", "2022-07-16", "2022-02-30 00:00:00", "2022-07-16 24:00:00", "2022-07-16 08:00:00.1234567", "2022-07-16 08:00:00.", "2022-07-1x 08:00:00", "0000-00-00 00:00:00", "2022-07-16 08:00:00+08:00"} {
		if _, ok := plainTimestamp(s); ok {
			t.Errorf("%q is plain", s)
		}
	}
	for _, s := range []string{"", "-", ".5", "5.", "1e3", "+1", "1.2.3", "1234567890123456789012"} {
		if n, ok := shortDecimal(s, 38, 4); ok {
			t.Errorf("%q is short: %d", s, n)
		}
	}
}
