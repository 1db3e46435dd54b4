package savepoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
)

// What PropertyProtect says.
const (
	// ProtectNone: the protective properties alone.
	ProtectNone = "none"
	// ProtectBackup: a copy of each savepoint's log files beside the log, too.
	ProtectBackup = "backup"
	// ProtectLock: the same, and FeatureLock.
	ProtectLock = "lock"
)

// FeatureLock is a writer feature that no other program has. Every engine reads a
// table that lists it, and one that goes by the protocol writes nothing to it,
// and removes nothing of it.
const FeatureLock = "gscdSavepoints"

// OpenTable opens a table as delta.Open does, for what keeps the savepoints' rules: one
// that is locked may be written.
func OpenTable(ctx context.Context, store objstore.Store, options ...delta.Option) (*delta.Table, error) {
	return delta.Open(ctx, store, append(options, delta.WithWriterFeatures(FeatureLock))...)
}

// NewTable is OpenTable for a table that may not exist yet.
func NewTable(store objstore.Store, options ...delta.Option) *delta.Table {
	return delta.New(store, append(options, delta.WithWriterFeatures(FeatureLock))...)
}

// BacksUp tells whether a setting of PropertyProtect asks for backups.
func BacksUp(protect string) bool { return protect == ProtectBackup || protect == ProtectLock }

// Locked tells whether a table's protocol has FeatureLock.
func Locked(s *delta.Snapshot) bool {
	return slices.Contains(delta.FeaturesOf(s.Protocol()), FeatureLock)
}

// ProtocolOf gives the protocol of a table with such properties: p with FeatureLock
// where PropertyProtect is ProtectLock, without where it is another, and as it is
// where there is none.
func ProtocolOf(p action.Protocol, properties map[string]string) action.Protocol {
	switch protect, set := properties[PropertyProtect]; {
	case protect == ProtectLock:
		return delta.WithFeatures(p, FeatureLock)
	case set:
		return delta.WithoutFeature(p, FeatureLock)
	}
	return p
}

// SetProtect adds to a transaction what makes a table's protection another one,
// property and protocol, and tells whether that changes anything.
func SetProtect(tx *delta.Transaction, protect string) bool {
	s := tx.Base()
	now, _ := s.Property(PropertyProtect)
	if now == protect && Locked(s) == (protect == ProtectLock) {
		return false
	}
	properties := map[string]string{PropertyProtect: protect}
	meta := *s.Metadata()
	meta.Configuration = withProperties(meta.Configuration, properties)
	tx.SetMetadata(meta)
	tx.SetProtocol(ProtocolOf(*s.Protocol(), properties))
	return true
}

// Reprotect makes a table's protection another one, in a commit of its own. It gives its version, and
// -1 where nothing had to change.
func Reprotect(ctx context.Context, table *delta.Table, protect string) (int64, error) {
	return commitSettings(ctx, table, func(tx *delta.Transaction) bool { return SetProtect(tx, protect) })
}

// checkLock looks whether the protocol is that of the setting.
func (c *checker) checkLock(ctx context.Context) error {
	protect, _ := c.newest.Property(PropertyProtect)
	locked := Locked(c.newest)
	if locked == (protect == ProtectLock) || protect == "" {
		return nil // a table without the setting has lost all of them: a fault of its own
	}
	f := Fault{Check: "lock", Severity: SeverityWarning, Version: c.newest.Version()}
	if locked {
		f.Message = fmt.Sprintf("its protocol has the feature %s, and %s is %q: other engines can't write to it, and nobody asks for that", FeatureLock, PropertyProtect, protect)
		f.Repair = "`gscd check --repair` takes the feature away"
	} else {
		f.Message = fmt.Sprintf("%s is %q, and its protocol lacks the feature %s: other engines can write to it, and vacuum it", PropertyProtect, protect, FeatureLock)
		f.Repair = "`gscd check --repair` puts the feature into the protocol"
	}
	if c.Repair {
		version, err := Reprotect(ctx, c.table, protect)
		if err != nil {
			return err
		}
		f.Repaired, f.Repair = true, fmt.Sprintf("done: by version %d", version)
	}
	c.fault(f)
	return nil
}
