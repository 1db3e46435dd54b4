package savepoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/format"
)

// ProtectedDays is for how long the table's properties keep other engines away
// from old versions, where nothing else is set.
const ProtectedDays = 3650

// horizon is how long before the oldest savepoint outgrows the properties Check warns.
const horizon = 365 * 24 * time.Hour

// checkProperties looks whether the properties that keep VACUUM and log cleanup
// of other engines away still stand.
func (c *checker) checkProperties(ctx context.Context) error {
	days := ProtectedDays
	list := weakened(c.newest)
	if len(list) == 0 {
		if age, name := c.oldestPin(); age > ProtectedDays*24*time.Hour-horizon {
			if protected, _ := protectedFor(c.newest, delta.PropertyDeletedFileRetention); age > protected-horizon {
				days += int(age / (24 * time.Hour))
				list = append(list, weakness{delta.PropertyDeletedFileRetention, fmt.Sprintf("%s is %d days old, and the property protects for %d days: other engines will refuse to read it, and may remove its files",
					name, age/(24*time.Hour), protected/(24*time.Hour))})
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	repaired, repair := false, "`gscd check --repair` sets the protective properties in one commit"
	if c.Repair {
		version, err := Protect(ctx, c.table, days)
		if err != nil {
			return err
		}
		repaired, repair = true, fmt.Sprintf("done: set by version %d", version)
	}
	for _, w := range list {
		c.fault(Fault{Check: "properties", Severity: SeverityWarning, Version: c.newest.Version(), Message: w.property + ": " + w.message, Repair: repair, Repaired: repaired})
	}
	return nil
}

// checkWriteMode finds a table with live deletion vectors whose property says that
// it has none: engines may leave them out, and deleted rows come back.
func (c *checker) checkWriteMode(ctx context.Context) error {
	on, _ := c.newest.Property(delta.PropertyDeletionVectors)
	if on == "true" || !slices.Contains(delta.FeaturesOf(c.newest.Protocol()), delta.FeatureDeletionVectors) {
		return nil
	}
	i := slices.IndexFunc(c.newest.Files(), func(a *action.Add) bool { return a.DeletionVector != nil })
	if i < 0 {
		return nil
	}
	f := Fault{Check: "properties", Severity: SeverityError, Version: c.newest.Version(), File: c.newest.Files()[i].Path,
		Message: delta.PropertyDeletionVectors + " is not true, and there are deletion vectors: some engines then show deleted rows",
		Repair:  "`gscd check --repair` sets it to true"}
	if c.Repair {
		version, err := setProperties(ctx, c.table, func(map[string]string) map[string]string {
			return map[string]string{delta.PropertyDeletionVectors: "true"}
		})
		if err != nil {
			return err
		}
		f.Repaired, f.Repair = true, fmt.Sprintf("done: set by version %d", version)
	}
	c.fault(f)
	return nil
}

// weakness is a protective property that does not protect.
type weakness struct{ property, message string }

// weakened lists the protective properties that do not stand.
func weakened(s *delta.Snapshot) (list []weakness) {
	for _, property := range []string{delta.PropertyDeletedFileRetention, delta.PropertyLogRetention} {
		got, err := protectedFor(s, property)
		switch {
		case err != nil:
			list = append(list, weakness{property, err.Error()})
		case got < ProtectedDays*24*time.Hour:
			list = append(list, weakness{property, fmt.Sprintf("it is %s; less than %d days lets other engines remove files of savepoints", valueOf(s, property), ProtectedDays)})
		}
	}
	if value, _ := s.Property(delta.PropertyExpiredLogCleanup); value != "false" {
		list = append(list, weakness{delta.PropertyExpiredLogCleanup, fmt.Sprintf("it is %s, not \"false\": other engines may clean the log that savepoints need", valueOf(s, delta.PropertyExpiredLogCleanup))})
	}
	return list
}

// Weakened says which protective properties of a table do not stand, and why;
// nothing where all of them do.
func Weakened(s *delta.Snapshot) (why []string) {
	for _, w := range weakened(s) {
		why = append(why, w.property+": "+w.message)
	}
	return why
}

func valueOf(s *delta.Snapshot, property string) string {
	if value, ok := s.Property(property); ok {
		return fmt.Sprintf("%q", value)
	}
	return "not set"
}

func protectedFor(s *delta.Snapshot, property string) (time.Duration, error) {
	value, ok := s.Property(property)
	if !ok {
		return 0, nil
	}
	return delta.ParseInterval(value)
}

// oldestPin gives the age of the oldest savepoint since its seal, and its name.
func (c *checker) oldestPin() (age time.Duration, name string) {
	for _, p := range c.pins {
		for _, ev := range c.evidenceOf(p) {
			if at, err := time.Parse(time.RFC3339Nano, ev.SealedAt); err == nil && c.Now.Sub(at) > age {
				age, name = c.Now.Sub(at), p.Names[0]
			}
		}
	}
	return age, name
}

// Protect sets the properties that keep VACUUM and log cleanup of other engines
// away from versions of so many days, in one commit. It gives its version.
func Protect(ctx context.Context, table *delta.Table, days int) (int64, error) {
	return setProperties(ctx, table, func(map[string]string) map[string]string { return delta.ProtectiveProperties(days) })
}

// FeedChanges sets delta.enableChangeDataFeed, and the protocol that it needs, in one
// commit of metadata. It gives its version. Every writer must then write change data.
func FeedChanges(ctx context.Context, table *delta.Table) (int64, error) {
	return setProperties(ctx, table, func(map[string]string) map[string]string {
		return map[string]string{delta.PropertyChangeDataFeed: "true"}
	})
}

// restoreSettings gives a table that has lost its properties (CREATE OR REPLACE
// of another engine) those of its newest savepoint back, as far as they are missing,
// and the features of its protocol: the rows that a rollback brings need them. The error
// wraps ErrForeign where no savepoint has any.
func restoreSettings(ctx context.Context, table *delta.Table, pins []Pin) (int64, error) {
	for _, p := range slices.Backward(pins) {
		s, err := table.SnapshotAt(ctx, p.Version)
		if err == nil {
			_, err = SettingsOf(s)
		}
		if errors.Is(err, format.ErrNewer) {
			return 0, err // an older savepoint's settings would make the table look like an older program's
		}
		if err != nil {
			continue // an older one may do
		}
		return setProperties(ctx, table, func(now map[string]string) map[string]string {
			missing := maps.Clone(s.Metadata().Configuration)
			maps.DeleteFunc(missing, func(key, _ string) bool {
				_, there := now[key]
				there = there && key != delta.PropertyDeletionVectors // Trino says "false" for every new table
				return there || !strings.HasPrefix(key, "gscd.") && !strings.HasPrefix(key, "delta.")
			})
			return missing
		}, delta.FeaturesOf(s.Protocol())...)
	}
	return 0, fmt.Errorf("%w: no savepoint has its properties", ErrForeign)
}

// withProperties gives the properties of a table with more or other ones.
func withProperties(now, more map[string]string) map[string]string {
	all := make(map[string]string, len(now)+len(more))
	maps.Copy(all, now)
	maps.Copy(all, more)
	return all
}

// setProperties adds properties, and the protocol that they need, in a commit of their
// own. More features may come with them.
func setProperties(ctx context.Context, table *delta.Table, add func(now map[string]string) map[string]string, features ...string) (int64, error) {
	return commitSettings(ctx, table, func(tx *delta.Transaction) bool {
		s := tx.Base()
		meta := *s.Metadata()
		meta.Configuration = withProperties(meta.Configuration, add(withProperties(meta.Configuration, nil)))
		tx.SetMetadata(meta)
		protocol := ProtocolOf(delta.WithFeatures(*s.Protocol(), features...), meta.Configuration)
		if meta.Configuration[delta.PropertyChangeDataFeed] == "true" {
			protocol = delta.WithFeatures(protocol, delta.FeatureChangeDataFeed)
		}
		if !equalProtocols(&protocol, s.Protocol()) {
			tx.SetProtocol(protocol)
		}
		return true
	})
}

func equalProtocols(a, b *action.Protocol) bool {
	return a.MinReaderVersion == b.MinReaderVersion && a.MinWriterVersion == b.MinWriterVersion &&
		slices.Equal(a.ReaderFeatures, b.ReaderFeatures) && slices.Equal(a.WriterFeatures, b.WriterFeatures)
}

// commitSettings commits what changes settings and nothing else, nor gscd's progress: it
// must be possible where that can't be read. It gives the version, -1 where change tells
// that there is nothing to do.
func commitSettings(ctx context.Context, table *delta.Table, change func(tx *delta.Transaction) bool) (int64, error) {
	for range editAttempts {
		s, err := table.Snapshot(ctx)
		if err != nil {
			return 0, err
		}
		tx := delta.NewTransaction(table, s)
		if !change(tx) {
			return -1, nil
		}
		tx.SetCommitInfo("SET TBLPROPERTIES", nil, nil, nil)
		done, err := tx.Commit(ctx)
		if err != nil {
			return 0, fmt.Errorf("set properties: %w", err)
		}
		if done.Committed {
			return done.Version, nil
		}
	}
	return 0, fmt.Errorf("set properties: %d attempts met other commits; try again", editAttempts)
}
