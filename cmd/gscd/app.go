package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/registry"
	"github.com/gscd-io/gscd/notify"
	"github.com/gscd-io/gscd/snapshotter"
	"github.com/gscd-io/gscd/tracing"
)

// app is what every command works with: where results, notices and logs go, and
// the configuration.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	// log, its level and steps are set before a command runs.
	log   *zap.Logger
	level zap.AtomicLevel
	steps *steps
	flags globalFlags
	// open takes the place of address.Open; nil for address.Open. Tests fail its stores.
	open func(ctx context.Context, location string) (objstore.Store, error)
	// brokerPatience bounds how long brokers are asked at the start; 0 is 15 s.
	brokerPatience time.Duration

	s3Mu       sync.Mutex // guards the making of s3
	loaded     *config.Config
	loadedFrom string
	loadedWith []config.Flag
	registryMu sync.Mutex // guards the making of registry
	registry   *registry.Client
	// s3 is made when the first bucket is opened.
	s3       *s3.Client
	storages storages
	// clusters are those that tables of this process read from, see openConsumer.
	clusters clusters
	// traffic is that of all of them.
	traffic kafka.Traffic
	// retries counts what the S3 client has repeated, by operation.
	retriesMu sync.Mutex
	retries   map[string]int64
	// notifier is nil where nobody is to be told of events.
	notifier *notify.Notifier
	// tracer is nil where nothing is traced.
	tracer *tracing.Tracer
}

// globalFlags are the flags of every command.
type globalFlags struct {
	config    string
	table     string
	format    string
	logLevel  string
	logFormat string
	// outside are places that commands which read may follow a log to.
	outside []string
}

// newApp is the app of the process.
func newApp() *app {
	return &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), log: zap.NewNop(), level: zap.NewAtomicLevel()}
}

// getenv is a variable of the environment, or "".
func (a *app) getenv(name string) string {
	for i := len(a.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(a.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// errors is standard error, above the bars of what is at work.
func (a *app) errors() io.Writer {
	if a.steps == nil {
		return a.stderr
	}
	return a.steps
}

// noticef writes a line for the person at the terminal: not a result, not a log.
func (a *app) noticef(format string, args ...any) {
	fmt.Fprintf(a.errors(), format+"\n", args...)
}

// defaultConfigFile is read where it exists and no other is named.
const defaultConfigFile = "./gscd.yaml"

// configFile is the file to read: -c, else GSCD_CONFIG, else ./gscd.yaml.
// named is false for the last, which need not exist.
func (a *app) configFile() (name string, named bool) {
	if a.flags.config != "" {
		return a.flags.config, true
	}
	if name := a.getenv("GSCD_CONFIG"); name != "" {
		return name, true
	}
	return defaultConfigFile, false
}

// config loads the configuration: flags before environment before file. Without
// a file it is what flags and environment give. The result is kept, for the same
// process asks with the same flags.
func (a *app) config(flags ...config.Flag) (*config.Config, error) {
	if a.loaded != nil && len(flags) == 0 {
		return a.loaded, nil
	}
	cfg, name, err := a.readConfig(flags...)
	if err != nil {
		return nil, err
	}
	a.loaded, a.loadedFrom, a.loadedWith = cfg, name, flags
	return cfg, nil
}

// readConfig reads the configuration and the file it is from, "" for none.
func (a *app) readConfig(flags ...config.Flag) (cfg *config.Config, name string, err error) {
	name, named := a.configFile()
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		name = ""
	case err != nil:
		return nil, name, usagef("read configuration: %w", err)
	}
	cfg, err = config.Load(config.Input{
		File: name, Data: data, Env: a.environ, Flags: flags,
		Checks: config.Checks{Zone: checkZone, Format: checkFormat, ColumnType: checkColumnType, Transform: checkTransform},
	})
	return cfg, name, err
}

func checkZone(name string) error {
	_, err := snapshotter.LoadZone(name)
	return err
}

func checkFormat(name string) error {
	for _, known := range decode.Formats() {
		if name == known {
			return nil
		}
	}
	return fmt.Errorf("%q is unknown: write %s", name, strings.Join(decode.Formats(), ", "))
}

func checkColumnType(text string) error {
	_, err := decode.ParseColumnType(text)
	return err
}
