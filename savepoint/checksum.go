package savepoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/format"
)

// ChecksumFolder is where the content checksums of savepoints lie, under names that are none
// of a log (see BackupFolder).
const ChecksumFolder = "_delta_log/_gscd/checksums/"

// checksumPrefix begins the txn application id of a version's checksum. Its number is
// the beginning of the SHA-256 of the file, so that the file can be told from any other.
const checksumPrefix = "gscd.checksum/"

// Checksum is the Content of a savepoint as it was recorded.
type Checksum struct {
	Version int64
	Content
}

// checksumFormat is the version of the file.
const checksumFormat = 1

// checksumFile is what the file of a version holds. It depends on the version alone:
// whoever writes it again writes the same bytes.
type checksumFile struct {
	Format   int    `json:"format"`
	Version  int64  `json:"version"`
	Rows     int64  `json:"rows"`
	Checksum string `json:"checksum"`
}

func checksumKey(version int64) string { return fmt.Sprintf("%sv%d.json", ChecksumFolder, version) }

// file gives the bytes that record a checksum, and the number that binds them.
func (c Checksum) file() (data []byte, bound int64) {
	data, err := json.Marshal(checksumFile{checksumFormat, c.Version, c.Rows, c.Text()})
	if err != nil {
		panic("savepoint: " + err.Error()) // numbers and digits
	}
	data = append(data, '\n')
	return data, boundTo(data)
}

func boundTo(data []byte) int64 {
	sum := sha256.Sum256(data)
	return int64(binary.BigEndian.Uint64(sum[:]) >> 1)
}

// ReadChecksum reads the checksum that was recorded for a version; ok is false where none
// was. s is any snapshot of the table behind it. The error wraps delta.ErrCorrupt where
// the file is not the one that was recorded, objstore.ErrNotExist where it is gone.
func ReadChecksum(ctx context.Context, store objstore.Store, s *delta.Snapshot, version int64) (c Checksum, ok bool, err error) {
	txn, ok := s.Txn(checksumPrefix + strconv.FormatInt(version, 10))
	if !ok {
		return c, false, nil
	}
	key := checksumKey(version)
	data, err := store.Get(ctx, key)
	if err != nil {
		return c, true, fmt.Errorf("the checksum of version %d: %w", version, err)
	}
	var f checksumFile
	bound := boundTo(data) == txn.Version
	if newer := newerChecksum(key, data); bound && newer != nil {
		return c, true, newer
	}
	content, good := Content{}, bound && json.Unmarshal(data, &f) == nil && f.Version == version
	if good {
		content, good = parseContent(f.Rows, f.Checksum)
	}
	if !good {
		return c, true, fmt.Errorf("the checksum of version %d: %w: %s is not the file that was recorded", version, delta.ErrCorrupt, key)
	}
	return Checksum{version, content}, true, nil
}

// newerChecksum refuses a file of a later form, whose other members may be of other types.
func newerChecksum(key string, data []byte) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Format <= checksumFormat {
		return nil //nolint:nilerr // a damaged file is told from what follows
	}
	return &format.Newer{What: "checksum file " + key, Found: strconv.Itoa(head.Format), Known: strconv.Itoa(checksumFormat)}
}

// ChecksumOptions say how RecordChecksums works.
type ChecksumOptions struct {
	// Seal, where it is set, is a savepoint's version: it alone is looked at, and its
	// checksum is recorded in the version behind it, or not at all where that is taken.
	Seal *delta.Snapshot
	// DryRun computes nothing, and tells which versions lack a checksum.
	DryRun   bool
	Progress func(what string, done, total int)
}

// RecordedChecksum is what RecordChecksums did for one savepoint.
type RecordedChecksum struct {
	Checksum
	Names []string
	// From is the version whose checksum it was made of; -1: every row was read.
	From int64
	// Read is how many files, or parts of files, were read.
	Read int
}

// checksumsAtOnce is how many are recorded by one commit: what an interruption costs.
const checksumsAtOnce = 50

// RecordChecksums computes the Content of each savepoint that has none recorded, and
// records them in commits that hold nothing else. That of a day is made of the day's
// before and the rows that came and went since, where these are less to read than the
// day. A running ingester passes over the commits. What was recorded before an error is
// in the result.
func RecordChecksums(ctx context.Context, table *delta.Table, o ChecksumOptions) (done []RecordedChecksum, err error) {
	s := o.Seal
	if s == nil {
		if s, err = table.Snapshot(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := SettingsOf(s); err != nil {
		return nil, err
	}
	var todo []Pin
	var base *checksumBase
	pins := PinsOf(s)
	for _, p := range pins {
		if _, has := s.Txn(checksumPrefix + strconv.FormatInt(p.Version, 10)); !has && (o.Seal == nil || p.Version == s.Version()) {
			todo = append(todo, p)
		}
	}
	if o.DryRun {
		for _, p := range todo {
			done = append(done, RecordedChecksum{Checksum: Checksum{Version: p.Version}, Names: p.Names, From: -1})
		}
		return done, nil
	}
	var waiting []RecordedChecksum
	var faults []error
	for i, p := range todo {
		tell(o.Progress, "computing checksums", i, len(todo))
		if base, err = baseOf(ctx, table, s, pins, p.Version, base); err != nil {
			return done, err
		}
		made, snapshot, err := checksumOf(ctx, table, p, base)
		if err != nil {
			err = fmt.Errorf("checksum of %s, version %d: %w", p.Names[0], p.Version, err)
			if ctx.Err() != nil || !isBadFile(err) && !errors.Is(err, scan.ErrFileMissing) && !errors.Is(err, scan.ErrFileMismatch) {
				return done, err
			}
			faults, base = append(faults, err), nil // the others can have theirs
		} else {
			base = &checksumBase{snapshot, made.Content}
			waiting = append(waiting, made)
		}
		if len(waiting) > 0 && (len(waiting) == checksumsAtOnce || i == len(todo)-1) {
			if committed, err := commitChecksums(ctx, table, o.Seal, waiting); err != nil || !committed {
				return done, err
			}
			done, waiting = append(done, waiting...), nil
		}
	}
	tell(o.Progress, "computing checksums", len(todo), len(todo))
	return done, errors.Join(faults...)
}

// checksumBase is a version whose content is known.
type checksumBase struct {
	snapshot *delta.Snapshot
	content  Content
}

// baseOf gives the nearest version before one whose content is known: the one that was
// just computed, or one that was recorded. nil: there is none that can be read.
func baseOf(ctx context.Context, table *delta.Table, newest *delta.Snapshot, pins []Pin, version int64, just *checksumBase) (*checksumBase, error) {
	for _, p := range slices.Backward(pins) {
		if p.Version >= version {
			continue
		}
		if just != nil && just.snapshot.Version() >= p.Version {
			return just, nil
		}
		c, ok, err := ReadChecksum(ctx, table.Store(), newest, p.Version)
		var s *delta.Snapshot
		if ok && err == nil {
			s, err = table.SnapshotAt(ctx, p.Version)
		}
		if err != nil && !isDamage(err) {
			return nil, err
		}
		if s != nil {
			return &checksumBase{s, c.Content}, nil
		}
		return nil, nil // what can't be read is a fault for check, and every row is read
	}
	return nil, nil
}

// checksumOf computes the checksum of a pin.
func checksumOf(ctx context.Context, table *delta.Table, p Pin, base *checksumBase) (made RecordedChecksum, s *delta.Snapshot, err error) {
	made = RecordedChecksum{Checksum: Checksum{Version: p.Version}, Names: p.Names, From: -1}
	if s, err = table.SnapshotAt(ctx, p.Version); err != nil {
		return made, nil, err
	}
	if base != nil {
		ok := false
		if made.Content, made.Read, ok, err = contentFrom(ctx, table.Store(), base.snapshot, base.content, s); err != nil {
			return made, nil, err
		}
		if ok {
			made.From = base.snapshot.Version()
		}
	}
	if made.From < 0 {
		made.Read = s.NumFiles()
		if made.Content, err = ContentOf(ctx, table.Store(), s); err != nil {
			return made, nil, err
		}
	}
	if rows, known := rowsOf(s); known && rows != made.Rows {
		return made, nil, fmt.Errorf("%w: %d rows were read, the log says %d; `gscd check --deep` says more", delta.ErrCorrupt, made.Rows, rows)
	}
	return made, s, nil
}

// commitChecksums writes the files of checksums and binds them in one commit without data,
// where base is not nil in the version behind it or in none.
func commitChecksums(ctx context.Context, table *delta.Table, base *delta.Snapshot, list []RecordedChecksum) (committed bool, err error) {
	bound := map[int64]int64{}
	for _, c := range list {
		data, number := c.file()
		if err := table.Store().Put(ctx, checksumKey(c.Version), data); err != nil {
			return false, fmt.Errorf("record the checksum of version %d: %w", c.Version, err)
		}
		bound[c.Version] = number
	}
	for range editAttempts {
		s := base
		if s == nil {
			if s, err = table.Snapshot(ctx); err != nil {
				return false, err
			}
		}
		tx := delta.NewTransaction(table, s)
		for _, c := range list {
			tx.SetTxn(checksumPrefix+strconv.FormatInt(c.Version, 10), bound[c.Version])
		}
		tx.SetCommitInfo("CHECKSUM", map[string]string{"versions": strconv.Itoa(len(list)), "last": list[len(list)-1].Names[0]}, nil, nil)
		out, err := tx.Commit(ctx)
		if err != nil {
			return false, fmt.Errorf("record checksums: %w", err)
		}
		if out.Committed || base != nil {
			return out.Committed, nil
		}
	}
	return false, fmt.Errorf("record checksums: %d attempts met other commits; try again", editAttempts)
}

// keepsChecksum keeps the checksums of pinned versions, and of those sealed since.
func (v *vacuum) keepsChecksum(key string) bool {
	digits, ok := strings.CutSuffix(strings.TrimPrefix(key, ChecksumFolder+"v"), ".json")
	version, err := strconv.ParseInt(digits, 10, 64)
	return !ok || err != nil || version > v.newest.Version() || slices.Contains(versionsOf(v.pins), version)
}

// checkChecksums looks whether the recorded checksums are there and, with Deep, whether
// the rows are still the ones that they were made of.
func (c *checker) checkChecksums(ctx context.Context) error {
	for _, p := range c.pins {
		sum, ok, err := ReadChecksum(ctx, c.store, c.newest, p.Version)
		if !ok {
			continue
		}
		now, read := c.contentOf(p.Version)
		f := faultOf(p, "checksum", SeverityWarning, "")
		f.File = checksumKey(p.Version)
		switch {
		case err == nil && (!read || now == sum.Content):
			continue
		case err == nil:
			f.Severity = SeverityError
			f.Message = fmt.Sprintf("its rows are not those that were sealed: %d rows with the checksum %.12s…, recorded are %d with %.12s…", now.Rows, now.Text(), sum.Rows, sum.Text())
			f.Repair = "bring the data files back from a copy of the storage, or compare the rows with the source: gscd verify --as-of " + p.Names[0]
		case !isDamage(err):
			return err
		default:
			f.Message = err.Error()
			f.Repair = "`gscd check --deep --repair` computes it again, and writes it where it is the one that was recorded"
			if c.Repair && read {
				data, bound := Checksum{p.Version, now}.file()
				if txn, _ := c.newest.Txn(checksumPrefix + strconv.FormatInt(p.Version, 10)); txn.Version != bound {
					f.Severity, f.Repair = SeverityError, "its rows are not those that were recorded, and the checksum is lost: bring the data files back from a copy of the storage"
				} else if err := c.store.Put(ctx, f.File, data); err != nil {
					return err
				} else {
					f.Repaired, f.Repair = true, "done: computed from the rows, and it is the one that was recorded"
				}
			}
		}
		c.fault(f)
	}
	return nil
}

// contentOf gives the content of a version whose rows were all read.
func (c *checker) contentOf(version int64) (content Content, read bool) {
	parts, opened := c.rows[version]
	if !opened {
		return content, false
	}
	for _, p := range parts {
		if p.err != nil {
			return content, false // reported with its file
		}
		content.plus(p.contents[p.names[version]])
	}
	return content, true
}
