package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta/objstore/address"
)

// tableRef is a table that a command works on.
type tableRef struct {
	// Name is for messages: the configured name, else the last part of the address.
	Name string
	// Address is a path or a URL.
	Address string
	// Config is nil for a table that is not configured.
	Config *config.Table
}

// resolveTable finds the table that --table names: an address if it has / or :
// in it or is a folder with _delta_log, else a configured name. The only
// configured table may be left out. An address that is configured brings its
// settings along.
func (a *app) resolveTable(table string) (tableRef, error) {
	cfg, err := a.config()
	if err != nil {
		return tableRef{}, err
	}
	return resolveTable(cfg, table)
}

// resolveTable finds a table of a configuration, or an address.
func resolveTable(cfg *config.Config, table string) (tableRef, error) {
	switch {
	case table == "" && len(cfg.Tables) == 1:
		return configured(&cfg.Tables[0]), nil
	case table == "" && len(cfg.Tables) == 0:
		return tableRef{}, usagef("no table: give --table ADDRESS, or a configuration with -c FILE")
	case table == "":
		return tableRef{}, usagef("%d tables are configured: give --table with one of %s", len(cfg.Tables), tableNames(cfg))
	case isAddress(table):
		if address.Shown(table) != table {
			return tableRef{}, usagef("--table %s has a login in it, which would be printed: use s3.access_key_id and s3.secret_access_key", address.Shown(table))
		}
		for i := range cfg.Tables {
			if sameAddress(cfg.Tables[i].Location, table) {
				return configured(&cfg.Tables[i]), nil
			}
		}
		return tableRef{Name: path.Base(strings.TrimRight(table, "/")), Address: table}, nil
	}
	if t, ok := cfg.Table(table); ok {
		return configured(t), nil
	}
	if len(cfg.Tables) == 0 {
		return tableRef{}, usagef("table %q: no configuration names it, and no folder of that name has a _delta_log: give an address, such as ./%s", table, table)
	}
	return tableRef{}, usagef("table %q is not configured: use one of %s, or an address such as ./%s", table, tableNames(cfg), table)
}

func configured(t *config.Table) tableRef {
	return tableRef{Name: t.Name, Address: t.Location, Config: t}
}

func tableNames(cfg *config.Config) string {
	var names []string
	for i := range cfg.Tables {
		names = append(names, cfg.Tables[i].Name)
	}
	return strings.Join(names, ", ")
}

// isAddress tells an address from a name.
func isAddress(table string) bool {
	if strings.ContainsAny(table, "/:") || filepath.IsAbs(table) {
		return true
	}
	info, err := os.Stat(filepath.Join(table, "_delta_log"))
	return err == nil && info.IsDir()
}

// sameAddress compares two spellings of an address.
func sameAddress(a, b string) bool {
	return plainAddress(a) == plainAddress(b)
}

func plainAddress(address string) string {
	scheme, rest, isURL := strings.Cut(address, "://")
	switch {
	case isURL && scheme != "file":
		if scheme == "s3a" {
			scheme = "s3"
		}
		return scheme + "://" + strings.TrimRight(rest, "/")
	case isURL:
		address = rest
	}
	if abs, err := filepath.Abs(address); err == nil {
		return abs
	}
	return filepath.Clean(address)
}
