package config

import (
	"encoding"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute,
		"7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "250ms": 250 * time.Millisecond,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "m", "-5m", "+5m", "1 d", "1y", "7days", "1e3s", "300000w", "106752d", ".5h", "9223372036854775808ns", "1d-2h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := time.Duration(rapid.Int64Min(0).Draw(rt, "d"))
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			rt.Fatalf("%d is written %s and read %d, %v", d, FormatDuration(d), got, err)
		}
	})
	for d, want := range map[time.Duration]string{0: "0s", time.Minute: "1m", 24 * time.Hour: "24h", 720 * time.Hour: "30d", 36 * time.Hour: "36h", 90 * time.Minute: "1h30m", 61 * time.Second: "1m1s", time.Hour + time.Second: "1h0m1s"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// readBack checks that a value's text reads back as the value.
func readBack[T comparable](t *testing.T, v T, text string, read encoding.TextUnmarshaler, got *T) {
	t.Helper()
	if err := read.UnmarshalText([]byte(text)); err != nil || *got != v {
		t.Errorf("%v is written %s and read %v, %v", v, text, *got, err)
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "10": 10, "10B": 10, "64KiB": 64 << 10, "128MiB": 128 << 20, "1 GiB": 1 << 30, "2TiB": 2 << 40} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
		var again Size
		readBack(t, got, got.String(), &again, &again)
	}
	for _, text := range []string{"", "MiB", "1MB", "1.5GiB", "-1", "1K", "9223372036854775807KiB", "99999999999999999999", "1  GiB"} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}

func TestFraction(t *testing.T) {
	for text, want := range map[string]Fraction{"0": 0, "0%": 0, "20%": .2, "0.2": .2, "12.5 %": .125, "100%": 1, "1.0": 1, "0.01": .01} {
		var got, again Fraction
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, float64(got), err, float64(want))
		}
		readBack(t, got, got.String(), &again, &again)
	}
	for _, text := range []string{"", "1", "20", "101%", "1.01", "-1%", "-0.1", "NaN", "inf%", "0x1p-2", "1e-1", "%", "20%%"} {
		var got Fraction
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v, want an error", text, float64(got))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := Fraction(rapid.Float64Range(0, 1).Draw(rt, "fraction"))
		var got Fraction
		if err := got.UnmarshalText([]byte(v.String())); err != nil || got != v {
			rt.Fatalf("%v is written %s and read %v, %v", float64(v), v, float64(got), err)
		}
	})
}

func TestPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"forever":      "forever",
		"90d":          "keep 90 days",
		"keep 90 days": "keep 90 days",
		"Keep 1 week":  "keep 1 week",
		"24h":          "keep 24 hours",
		"12 months":    "keep 12 months",
		"7y":           "keep 7 years",
		"keep 90 days, then month ends, for 7 years":                 "keep 90 days, then month ends for 7 years",
		"keep 90 days, then month ends for 7y":                       "keep 90 days, then month ends for 7 years",
		"30d then week ends 1y then year ends":                       "",
		"30d then week ends 1y then year ends forever":               "keep 30 days, then week ends for 1 year, then year ends for forever",
		"keep 30d, then quarter ends for 2y, then year ends for 10y": "keep 30 days, then quarter ends for 2 years, then year ends for 10 years",
		"90 labels then day ends for 90d":                            "keep 90 labels, then day ends for 90 days",
		"7d then day ends for 90 labels":                             "",
		"":                                                           "",
		"keep":                                                       "",
		"90":                                                         "",
		"90m":                                                        "",
		"0d":                                                         "",
		"-3d":                                                        "",
		"1000000d":                                                   "",
		"keep forever":                                               "",
		"keep 90 days month ends 7y":                                 "",
		"keep 90 days then month 7y":                                 "",
		"keep 90 days then moon ends for 7y":                         "",
		"keep 1y then month ends for 12 months":                      "",
	} {
		var p, again Policy
		err := p.UnmarshalText([]byte(text))
		if want == "" {
			if err == nil {
				t.Errorf("%q is %s, want an error", text, p)
			}
			continue
		}
		if err != nil || p.String() != want {
			t.Errorf("%q: %s, %v, want %s", text, p, err, want)
			continue
		}
		if err := again.UnmarshalText([]byte(p.String())); err != nil || again.String() != want {
			t.Errorf("%s is read back as %s, %v", p, again, err)
		}
	}
	if d := (Span{7, "year"}).Days(); d < 2556 || d > 2557 {
		t.Errorf("seven years are %f days", d)
	}
}

func TestStart(t *testing.T) {
	for text, want := range map[string]string{
		"earliest": "earliest", "latest": "latest", "2022-07-16T00:00:00+08:00": "2022-07-16T00:00:00+08:00",
		"0=120": "0=120", "0=120, 1=98": "0=120,1=98", "shop.a/0=1,shop.b/0=2": "shop.a/0=1,shop.b/0=2",
		"": "", "now": "", "2022-07-16": "", "0=": "", "=1": "", "-1=0": "", "0=-1": "", "0=1,": "", "0=1,0=2": "", "2147483648=0": "", "a=1": "",
	} {
		var s Start
		err := s.UnmarshalText([]byte(text))
		got, _ := s.MarshalText()
		if want == "" && err == nil || want != "" && string(got) != want {
			t.Errorf("%q: %s, %v, want %q", text, got, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"brokers", "late", "merge-on-read", "start", "seal"}
	for word, want := range map[string]string{
		"broker": "brokers", "borkers": "brokers", "Late": "late", "merge_on_read": "merge-on-read", "lte": "late", "strt": "start",
		"xyzzy": "", "on": "", "la": "", "sael": "seal",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func TestFaultsText(t *testing.T) {
	one := &Faults{File: "gscd.yaml", List: []Fault{{Line: 3, Path: "tables[0].late", Message: "is odd"}}}
	if got := one.Error(); got != "gscd.yaml: line 3: tables[0].late: is odd" {
		t.Errorf("one: %s", got)
	}
	one.List = append(one.List, Fault{Path: "--late", Message: "is odd too"})
	if got := one.Error(); got != "gscd.yaml: 2 faults\n  line 3: tables[0].late: is odd\n  --late: is odd too" {
		t.Errorf("two: %s", got)
	}
	if got := strings.Count((&Faults{List: sorted([]Fault{{Line: 2, Message: "b"}, {Line: 1, Message: "a"}, {Line: 2, Message: "b"}})}).Error(), "b"); got != 1 {
		t.Errorf("a fault is told %d times", got)
	}
}
