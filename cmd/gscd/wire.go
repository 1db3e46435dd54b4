package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/address"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/registry"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// openStore opens the storage of an address. Nothing is read or created.
func (a *app) openStore(ctx context.Context, location string, o ...address.Option) (objstore.Store, error) {
	if a.open != nil {
		return a.open(ctx, location)
	}
	store, err := address.Open(ctx, location, append(o, address.S3(a.openBucket), address.Google(a.openGoogle), address.Azure(a.openAzure))...)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", address.Shown(location), err)
	}
	return store, nil
}

// openBucket opens a folder of a bucket. One client serves all tables: they
// share its connections, its credentials and its memory for uploads.
func (a *app) openBucket(ctx context.Context, bucket, folder string) (objstore.Store, error) {
	a.s3Mu.Lock()
	defer a.s3Mu.Unlock()
	if a.s3 == nil {
		cfg, err := a.config()
		if err != nil {
			return nil, err
		}
		a.s3, err = s3.NewClient(ctx, s3.Options{
			Endpoint: cfg.S3.Endpoint, Region: cfg.S3.Region, PathStyle: cfg.S3.PathStyle,
			AccessKeyID: cfg.S3.AccessKeyID, SecretAccessKey: string(cfg.S3.SecretAccessKey), SessionToken: string(cfg.S3.SessionToken),
			CAFile: cfg.S3.CAFile, FIPS: cfg.S3.FIPS, DualStack: cfg.S3.DualStack,
			Role:       roleOf(cfg.S3.Role),
			Encryption: s3.Encryption{Type: cfg.S3.Encryption.Type, KeyID: cfg.S3.Encryption.KeyID, BucketKey: cfg.S3.Encryption.BucketKey},
			Renew: func() (id, secret, token string, err error) {
				next, _, err := a.readConfig(a.loadedWith...)
				if err != nil {
					return "", "", "", err
				}
				return next.S3.AccessKeyID, string(next.S3.SecretAccessKey), string(next.S3.SessionToken), nil
			},
			Retried: func(r s3.Retry) {
				a.countRetry(r.Op)
				a.log.Warn("the storage is asked again", zap.String("at", r.Store), zap.String("op", r.Op), zap.String("key", r.Key),
					zap.Int("attempt", r.Attempt), zap.Duration("in", r.Wait), zap.Error(r.Err))
			},
		})
		if err != nil {
			return nil, err
		}
	}
	store, err := a.s3.Store(bucket, folder)
	if err != nil {
		return nil, err
	}
	return a.logStore(ctx, store, bucket, folder)
}

// roleOf is the role of AWS that is configured.
func roleOf(r *config.S3Role) s3.Role {
	if r == nil {
		return s3.Role{}
	}
	return s3.Role{
		ARN: r.ARN, ExternalID: r.ExternalID, SessionName: r.SessionName, Duration: r.Duration,
		WebIdentityTokenFile: r.WebIdentityTokenFile, Endpoint: r.STSEndpoint,
	}
}

// countRetry counts a request that the S3 client repeats.
func (a *app) countRetry(op string) {
	a.retriesMu.Lock()
	defer a.retriesMu.Unlock()
	if a.retries == nil {
		a.retries = map[string]int64{}
	}
	a.retries[op]++
}

// retried gives what countRetry has counted.
func (a *app) retried() map[string]int64 {
	a.retriesMu.Lock()
	defer a.retriesMu.Unlock()
	return maps.Clone(a.retries)
}

// schemas gives the registry, nil where none is configured. One client serves all
// tables: what one has fetched the others have.
func (a *app) schemas(cfg *config.Config) (decode.Schemas, error) {
	s := &cfg.SchemaRegistry
	if s.URL == "" {
		return nil, nil
	}
	a.registryMu.Lock()
	defer a.registryMu.Unlock()
	if a.registry == nil {
		client, err := registry.New(registry.Options{
			URLs: s.URLs(), Username: s.Username, Password: string(s.Password), Token: string(s.Token),
			CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile,
		})
		if err != nil {
			return nil, err
		}
		a.registry = client
	}
	return a.registry, nil
}

// deadLetterAddress is where the dead-letter table of a table lies: beside it.
func deadLetterAddress(location string) string {
	return strings.TrimRight(location, "/") + "__dead_letter"
}

func calendarOf(cfg *config.Config) (*snapshotter.Calendar, error) {
	cal, err := snapshotter.NewCalendar(cfg.Calendar.Granularity, cfg.Calendar.Timezone, cfg.Calendar.Cutover)
	if err != nil {
		return nil, usagef("calendar: %w", err)
	}
	return cal, nil
}

// decodeOptions are what a table's settings say about its records. types are
// those that the configuration gives to columns.
func (a *app) decodeOptions(cfg *config.Config, t *config.Table) (o decode.Options, types map[string]schema.Type, err error) {
	o = decode.Options{
		Source:     t.Source,
		Columns:    map[string]decode.ColumnSpec{},
		Debezium:   decode.Debezium{Decimals: t.Debezium.Decimals, Unsigned: t.Debezium.Unsigned, Binary: t.Debezium.Binary},
		DMS:        decode.DMS{BeforeImage: t.DMS.BeforeImage, BeforePrefix: t.DMS.BeforePrefix, KeyChanges: t.DMS.KeyChanges},
		EventTime:  t.EventTime,
		Tombstones: t.Tombstones,
		KeyColumns: keyColumns(t),
	}
	if !t.TombstonesChosen {
		o.Tombstones = "" // so that a format which needs the choice asks for it
	}
	o.Avro = decode.Avro{Frame: t.Avro.Frame, ID: t.Avro.ID}
	if o.Schemas, err = a.schemas(cfg); err != nil {
		return o, nil, usagef("%w", err)
	}
	if t.Canal.Timezone != "" {
		if o.Canal.Timezone, err = time.LoadLocation(t.Canal.Timezone); err != nil {
			return o, nil, usagef("table %s: canal.timezone: %w", t.Name, err)
		}
	}
	if t.OGG.Timezone != "" {
		if o.OGG.Timezone, err = time.LoadLocation(t.OGG.Timezone); err != nil {
			return o, nil, usagef("table %s: ogg.timezone: %w", t.Name, err)
		}
	}
	types = map[string]schema.Type{}
	for name, text := range t.Columns {
		spec, err := decode.ParseColumnType(text)
		if err != nil {
			return o, nil, usagef("table %s: columns.%s: %w", t.Name, name, err)
		}
		o.Columns[name], types[name] = spec, spec.Type
	}
	return o, types, nil
}

// ingestOptions are what a configured table means to the pipeline.
func (a *app) ingestOptions(ctx context.Context, cfg *config.Config, t *config.Table) (ingest.Options, error) {
	o := ingest.Options{
		Name: t.Name, Key: t.Key, Format: t.Format,
		DriftWait: literal(t.Drift.Wait), DriftIdle: literal(t.Drift.Idle), MaxClockSkew: literal(t.MaxClockSkew),
		Late: t.Late, Future: t.Future, Truncate: t.Truncate, PartialImage: t.PartialImage, NullKey: t.NullKey,
		NewColumn: t.NewColumn, MissingColumn: t.MissingColumn, DDL: t.DDL, BadValue: t.BadValue, Reload: t.Reload,
		Tombstones: t.Tombstones, OnLostOffsets: t.OnLostOffsets, Compacted: t.Compacted, Start: startOf(t),
		SealProof: t.Seal.Proof, HeartbeatTopic: t.Seal.Topic, Lists: savepoint.ListKind(t.Seal.Manifest), SealChecksum: t.Seal.Checksum,
		MaxDeleteFraction: literal(float64(t.MaxDeleteFraction)), DeadLetterFraction: literal(float64(t.DeadLetter.Limit)),
		MaxRecord: int64(t.MaxRecord),
		BatchRows: t.Batch.Rows, BatchBytes: int64(t.Batch.Bytes), BatchInterval: t.Batch.Interval, BatchMaxInterval: t.Batch.MaxInterval,
		CopyOnWrite: t.Write.Mode == "copy-on-write", PartitionBy: t.PartitionBy, ChangeData: t.ChangeData,
		Properties: tableProperties(t), Append: t.Mode == "append",
		Protect: chosenProtect(t),
		Log:     a.log,
	}
	var err error
	if o.Calendar, err = calendarOf(cfg); err != nil {
		return o, err
	}
	if o.Decode, o.Columns, err = a.decodeOptions(cfg, t); err != nil {
		return o, err
	}
	if o.Store, err = a.openStore(ctx, t.Location); err != nil {
		return o, fmt.Errorf("table %s: %w", t.Name, err)
	}
	if _, isLocal := o.Store.(*local.Store); !isLocal {
		o.IndexDir = cfg.Process.CacheDir // on local disk keys are read as fast as they were saved
	}
	if o.DeadLetterStore, err = a.openStore(ctx, deadLetterAddress(t.Location)); err != nil {
		return o, fmt.Errorf("table %s: dead letters: %w", t.Name, err)
	}
	if o.Transform, err = rulesOf(t, cfg.Transform.HashSecret); err != nil {
		return o, usagef("table %s: %w", t.Name, err)
	}
	o.Columns = tableTypes(t, o.Transform, o.Columns)
	if t.SchemaTopic != "" {
		o.SchemaTopic = &ingest.SchemaTopic{Topic: t.SchemaTopic, Open: a.schemaConsumer(cfg, t, &o)}
	}
	return o, a.setDeadLetterTopic(cfg, t, &o)
}

// checkLocation finds a folder that can't be written to before anything is read,
// and a storage on which commits would not be safe.
func (a *app) checkLocation(t *config.Table) func(context.Context) error {
	return func(ctx context.Context) error {
		store, err := a.openStore(ctx, t.Location)
		if err != nil {
			return err
		}
		if bucket, ok := store.(prober); ok {
			return bucket.Probe(ctx)
		}
		if _, isLocal := store.(*local.Store); !isLocal {
			return nil
		}
		folder := store.String()
		for {
			info, err := os.Stat(folder)
			if err == nil && !info.IsDir() {
				return fmt.Errorf("location %s: %s is a file: give the folder of the table", t.Location, folder)
			}
			if parent := filepath.Dir(folder); err != nil && errors.Is(err, fs.ErrNotExist) && parent != folder {
				folder = parent
				continue
			}
			if err != nil && !errors.Is(err, syscall.ENOTDIR) {
				return fmt.Errorf("location %s: %w", t.Location, err)
			}
			if err != nil {
				folder = filepath.Dir(folder)
				continue
			}
			break
		}
		f, err := os.CreateTemp(folder, ".gscd-*")
		if err != nil {
			return fmt.Errorf("location %s can't be written to: give this user the right to, or another location: %w", t.Location, err)
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}

// literal tells a zero that was configured from one that stands for a default.
func literal[T time.Duration | float64](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

// chosenProtect is how a table that is there is to be protected, "" to leave that as it is.
func chosenProtect(t *config.Table) string {
	if t.ProtectChosen {
		return t.Protect
	}
	return ""
}

// tableProperties are the properties of a new table that its settings decide.
func tableProperties(t *config.Table) map[string]string {
	r := t.Retention
	return map[string]string{
		savepoint.PropertyProtect: t.Protect,
		savepoint.PropertyRetention: fmt.Sprintf(`{"history":%q,"savepoints":%q,"rolled_back":%q}`,
			config.FormatDuration(r.History), r.Savepoints.String(), config.FormatDuration(r.RolledBack)),
	}
}
