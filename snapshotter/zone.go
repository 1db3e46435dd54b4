package snapshotter

import (
	"archive/zip"
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// zoneRelease is the release of the IANA database in zoneArchive.
const zoneRelease = "2025c"

// The standard library asks ZONEINFO and the host's folders before its own
// embedded data, so two hosts could cut a day differently. This copy is read
// directly and nothing else is.
//
//go:generate sh -c "cp $(go env GOROOT)/lib/time/zoneinfo.zip zoneinfo/zoneinfo.zip"
//go:embed zoneinfo/zoneinfo.zip
var zoneArchive []byte

// zoneFiles lists the archive by zone name.
var zoneFiles = sync.OnceValues(func() (map[string]*zip.File, error) {
	archive, err := zip.NewReader(bytes.NewReader(zoneArchive), int64(len(zoneArchive)))
	if err != nil {
		return nil, fmt.Errorf("open embedded zone data: %w", err)
	}
	files := make(map[string]*zip.File, len(archive.File))
	for _, f := range archive.File {
		if !f.FileInfo().IsDir() {
			files[f.Name] = f
		}
	}
	return files, nil
})

// ZoneRelease names the release of the embedded IANA zone data, e.g. "2025c".
func ZoneRelease() string { return zoneRelease }

// LoadZone returns an IANA zone from the embedded data, the same on every host.
// The error of an unknown name says which known one is meant, where that can be told.
func LoadZone(name string) (*time.Location, error) {
	files, err := zoneFiles()
	if err != nil {
		return nil, err
	}
	f, known := files[name]
	if !known {
		return nil, unknownZone(name, files)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("open zone %s: %w", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read zone %s: %w", name, err)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("decode zone %s: %w", name, err)
	}
	return zone, nil
}

// unknownZone explains a name that the data does not have.
func unknownZone(name string, files map[string]*zip.File) error {
	switch {
	case name == "":
		return errors.New("no time zone: name the IANA zone whose clock ends the day, e.g. Asia/Shanghai, or UTC")
	case strings.EqualFold(name, "local"):
		return fmt.Errorf("time zone %q depends on the host: name an IANA zone, e.g. Asia/Shanghai, or UTC", name)
	}
	known := slices.Sorted(maps.Keys(files))
	means := func(same func(known string) bool) string {
		if i := slices.IndexFunc(known, same); i >= 0 {
			return fmt.Sprintf("did you mean %s?", known[i])
		}
		return ""
	}
	hint := cmp.Or(
		means(func(k string) bool { return strings.EqualFold(k, name) }),
		means(func(k string) bool { return strings.EqualFold(path.Base(k), path.Base(name)) }),
		"write a name such as Asia/Shanghai, Europe/Berlin or UTC")
	return fmt.Errorf("time zone %q is not in the IANA database (%s): %s", name, zoneRelease, hint)
}

// offsetEnd is an instant behind t up to which the zone's offset stays the same;
// ends is false where that is for ever.
func offsetEnd(t time.Time) (end time.Time, ends bool) {
	_, end = t.ZoneBounds()
	if end.IsZero() {
		return end, false
	}
	if !end.After(t) {
		// By a zone's rule for future years, ZoneBounds ends a leap year one day
		// early and gives nothing for 31 December. No rule changes clocks that day.
		end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).In(t.Location())
	}
	return end, true
}
