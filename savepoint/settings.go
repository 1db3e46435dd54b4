package savepoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// The table's properties that are gscd's.
const (
	PropertyFormatVersion = "gscd.format_version"
	PropertyCalendar      = "gscd.calendar"
	PropertyKey           = "gscd.key"
	PropertySourceFormat  = "gscd.source_format"
	PropertyProtect       = "gscd.protect"
	PropertyRetention     = "gscd.retention"
)

// formatVersion is the version of properties and map that this program writes.
const formatVersion = "1"

// ErrForeign: the table is Delta, and not gscd's.
var ErrForeign = errors.New("the table was not written by gscd")

// Settings is what a gscd table says of itself.
type Settings struct {
	Calendar     *snapshotter.Calendar
	Key          []string
	SourceFormat string
	Protect      string
}

// Properties gives the settings as table properties.
func (s Settings) Properties() map[string]string {
	calendar, err := json.Marshal(s.Calendar)
	if err != nil {
		panic("savepoint: " + err.Error()) // three strings
	}
	key, err := json.Marshal(s.Key)
	if err != nil {
		panic("savepoint: " + err.Error())
	}
	m := map[string]string{
		PropertyFormatVersion: formatVersion,
		PropertyCalendar:      string(calendar),
		PropertyKey:           string(key),
	}
	if s.SourceFormat != "" {
		m[PropertySourceFormat] = s.SourceFormat
	}
	if s.Protect != "" {
		m[PropertyProtect] = s.Protect
	}
	return m
}

// ReadSettings reads the settings of a table as SettingsOf does; where a newer gscd wrote
// them, the error names its release.
func ReadSettings(ctx context.Context, table *delta.Table, s *delta.Snapshot) (*Settings, error) {
	settings, err := SettingsOf(s)
	var newer *format.Newer
	if !errors.As(err, &newer) {
		return settings, err
	}
	// The commit helps to say more; that it can't be read says nothing about the settings.
	if txn, ok := s.Txn(progress.AppID); ok {
		var info struct {
			Engine json.RawMessage `json:"engineInfo"`
		}
		if raw, err := table.CommitInfo(ctx, txn.Version); err == nil && json.Unmarshal(orObject(raw), &info) == nil {
			newer.Release = progress.ReleaseOf(info.Engine)
		}
	}
	return nil, err
}

// SettingsOf reads the settings of a table. The error wraps ErrForeign or format.ErrNewer.
func SettingsOf(s *delta.Snapshot) (*Settings, error) {
	version, ok := s.Property(PropertyFormatVersion)
	if !ok {
		return nil, fmt.Errorf("%w: it has no property %s; `gscd adopt` takes such a table over", ErrForeign, PropertyFormatVersion)
	}
	if version != formatVersion {
		return nil, &format.Newer{What: "property " + PropertyFormatVersion, Found: version, Known: formatVersion}
	}
	out := &Settings{}
	text, _ := s.Property(PropertyCalendar)
	var err error
	if out.Calendar, err = snapshotter.DecodeCalendar(text); err != nil {
		return nil, fmt.Errorf("property %s: %w", PropertyCalendar, err)
	}
	key, _ := s.Property(PropertyKey)
	if err := json.Unmarshal([]byte(key), &out.Key); err != nil {
		return nil, fmt.Errorf("property %s %q: %w", PropertyKey, key, err)
	}
	out.SourceFormat, _ = s.Property(PropertySourceFormat)
	out.Protect, _ = s.Property(PropertyProtect)
	return out, nil
}

// ProgressOf gives the progress that is in force at a snapshot: that of the
// last gscd commit, named by the txn "gscd". The error wraps ErrForeign where
// there is none, and names the file that can't be read.
func ProgressOf(ctx context.Context, table *delta.Table, s *delta.Snapshot) (*progress.Progress, error) {
	txn, ok := s.Txn(progress.AppID)
	if !ok {
		return nil, fmt.Errorf("%w: no commit of gscd is in its log", ErrForeign)
	}
	return progressAt(ctx, table, txn.Version)
}

func progressAt(ctx context.Context, table *delta.Table, version int64) (*progress.Progress, error) {
	info, err := table.CommitInfo(ctx, version)
	if err != nil {
		return nil, fmt.Errorf("read gscd's progress at version %d: %w", version, err)
	}
	p, err := progress.Decode(orObject(info))
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", version, err)
	}
	if p == nil {
		return nil, fmt.Errorf("version %d: %w: its commitInfo has no progress", version, ErrForeign)
	}
	return p, nil
}
