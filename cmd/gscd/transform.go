package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/transform"
)

// rulesOf are a table's filters and transforms, nil for none.
func rulesOf(t *config.Table, secret config.Secret) (*transform.Rules, error) {
	var shard *transform.Shard
	if c := t.ShardColumn; c != nil {
		shard = &transform.Shard{Column: c.Name, From: c.From}
	}
	masks := map[string]transform.Mask{}
	for name, m := range t.Mask {
		masks[name] = transform.Mask{Method: transform.Method(m.Method), Text: m.Text, Keep: m.Keep}
	}
	return transform.New(transform.Settings{
		Shard: shard, Include: t.IncludeColumns, Exclude: t.ExcludeColumns, Hash: t.HashColumns, Secret: []byte(secret.Reveal()),
		Mask: masks, Plain: t.RawRecords == "plain", Seal: t.RawRecords == "encrypt", Rename: t.Rename, Where: t.RowFilter, Key: t.Key,
	})
}

// checkTransform reports every fault of a table's filters and transforms.
func checkTransform(t *config.Table, secret config.Secret) error {
	rules, err := rulesOf(t, secret)
	var faults []error
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		faults = many.Unwrap()
	}
	if c := t.ShardColumn; c != nil && (c.From == "table" || c.From == "database") && t.Source == "" {
		faults = append(faults, errors.New("shard_column is from "+c.From+": set source to the tables to take, a pattern such as shop.orders_*"))
	}
	if t.RowFilter != "" {
		if err := transform.CheckCondition(t.RowFilter); err != nil {
			faults = append(faults, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Cast)) {
		if err == nil && rules.Text(name) {
			faults = append(faults, errors.New("column "+name+" is hashed or masked, and so text: leave out its cast"))
		}
	}
	return errors.Join(faults...)
}

// keyColumns are the columns, by their names in the source, that the row before is
// read for; a condition of rows needs all of it.
func keyColumns(t *config.Table) []string {
	if t.RowFilter != "" {
		return nil
	}
	rules, err := transform.New(transform.Settings{Rename: t.Rename})
	if err != nil {
		return nil // which the configuration has told
	}
	var out []string
	for _, name := range t.Key {
		out = append(out, rules.SourceName(name))
	}
	return out
}

// tableTypes are the types of columns by their names in the table: what columns
// says of the source's, or cast of the table's.
func tableTypes(t *config.Table, rules *transform.Rules, types map[string]schema.Type) map[string]schema.Type {
	out := map[string]schema.Type{}
	for name, typ := range types {
		if !rules.Text(name) {
			out[rules.TableName(name)] = typ
		}
	}
	for name, text := range t.Cast {
		if spec, err := decode.ParseColumnType(text); err == nil { // it was checked
			out[rules.TableName(name)] = spec.Type
		}
	}
	return out
}
