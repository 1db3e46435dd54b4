package config

import (
	"fmt"
	"slices"
	"strings"
)

// validateContradictions reports settings of which each is right and that can't go
// together. Values count, not who wrote them: what Show prints is read back alike.
func (r *reader) validateContradictions(cfg *Config) {
	for i := range cfg.Tables {
		t, p := &cfg.Tables[i], fmt.Sprintf("tables[%d]", i)
		r.contradictMode(t, p)
		r.contradictTopics(cfg, t, p)
		r.contradictColumns(t, p)
		if t.Protect == "lock" && cfg.S3.LogStore == "dynamodb" && isS3(t.Location) {
			r.at(p+".protect", "lock refuses other writers, and s3.log_store: dynamodb is there for one: leave one of them out")
		}
		if tier := t.Retention.Tier; tier.After > 0 && !t.Retention.Savepoints.Forever && len(t.Retention.Savepoints.Then) == 0 {
			if days := t.Retention.Savepoints.Keep.Days(); t.Retention.Savepoints.Keep.Unit != "label" && days > 0 && tier.After.Hours()/24 >= days {
				r.at(p+".retention.tier.after", "%s is not before the end of what retention.savepoints keeps, %s: no file would ever be moved", FormatDuration(tier.After), t.Retention.Savepoints)
			}
		}
	}
	r.contradictLocations(cfg.Tables)
	r.contradictTLS(cfg)
}

func (r *reader) contradictMode(t *Table, p string) {
	if t.Mode != "append" {
		return
	}
	if len(t.Key) > 0 {
		r.at(p+".key", "belongs to mode: upsert: with append each record is a row of its own")
	}
	if t.Tombstones == "delete" {
		r.at(p+".tombstones", "delete takes the row of a key away, and with mode: append there is no key")
	}
	for _, k := range []struct{ key, value, usual string }{
		{"reload", t.Reload, "replace"}, {"partial_image", t.PartialImage, "merge"}, {"null_key", t.NullKey, "value"},
	} {
		if k.value != k.usual {
			r.at(p+"."+k.key, "%s belongs to mode: upsert, and mode is append", k.value)
		}
	}
}

// contradictTopics: what is written to a topic may not be read from it again.
func (r *reader) contradictTopics(cfg *Config, t *Table, p string) {
	dead, toTopic := strings.CutPrefix(t.DeadLetter.To, "topic:")
	for j := range cfg.Tables {
		if toTopic && slices.Contains(cfg.Tables[j].Topics, dead) {
			r.at(p+".dead_letter.to", "%s is read by tables[%d]: dead letters would come in as changes", dead, j)
		}
	}
	if c := cfg.Capture; c != nil {
		if slices.Contains(t.Topics, c.StateTopic) {
			r.at(p+".topics", "%s is capture.state_topic, which has no rows", c.StateTopic)
		}
		if toTopic && dead == c.StateTopic {
			r.at(p+".dead_letter.to", "%s is capture.state_topic, which gscd capture alone may write", dead)
		}
	}
	if slices.Contains(t.Topics, t.Seal.Topic) && t.Seal.Topic != "" {
		r.at(p+".seal.topic", "%s is one of the table's topics too: heartbeats come on others", t.Seal.Topic)
	}
}

// contradictColumns: columns that are left out, and needed.
func (r *reader) contradictColumns(t *Table, p string) {
	has := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
	}
	source := func(name string) string {
		for from, to := range t.Rename {
			if strings.EqualFold(to, name) {
				return from
			}
		}
		return name
	}
	left := func(name string) bool {
		return has(t.ExcludeColumns, name) || len(t.IncludeColumns) > 0 && !has(t.IncludeColumns, name)
	}
	for i, name := range t.PartitionBy {
		if left(source(name)) && (t.ShardColumn == nil || !strings.EqualFold(t.ShardColumn.Name, name)) {
			r.at(fmt.Sprintf("%s.partition_by[%d]", p, i), "column %s is left out of the table", name)
		}
	}
	for name := range t.Cast {
		if left(name) {
			r.at(p+".cast."+name, "column %s is left out of the table", name)
		}
	}
}

func isS3(location string) bool {
	return strings.HasPrefix(location, "s3://") || strings.HasPrefix(location, "s3a://")
}

// contradictLocations: a table within another's folder would be cleaned away with what
// does not belong there, and beside each table lies that of its dead letters.
func (r *reader) contradictLocations(tables []Table) {
	for i := range tables {
		a := cleanLocation(tables[i].Location)
		for j := range tables {
			b := cleanLocation(tables[j].Location)
			switch {
			case i == j || tables[i].Location == "" || tables[j].Location == "" || badLocation(tables[i].Location)+badLocation(tables[j].Location) != "":
			case strings.HasPrefix(a, strings.TrimRight(b, "/")+"/"):
				r.at(fmt.Sprintf("tables[%d].location", i), "%s is within the folder of tables[%d]: vacuum of that one would take its files for leftovers", tables[i].Location, j)
			case a == b+"__dead_letter":
				r.at(fmt.Sprintf("tables[%d].location", i), "%s is where the dead letters of tables[%d] are", tables[i].Location, j)
			}
		}
	}
}

// contradictTLS: certificates beside an address without TLS would give a false safety.
func (r *reader) contradictTLS(cfg *Config) {
	plain := func(url string) bool { return strings.HasPrefix(url, "http://") }
	s := &cfg.SchemaRegistry
	if slices.ContainsFunc(s.URLs(), plain) && (s.CAFile != "" || s.CertFile != "") {
		r.at("schema_registry.url", "is http://, and ca_file or cert_file is set: write https://, or leave them out")
	}
	if plain(cfg.S3.Endpoint) && cfg.S3.CAFile != "" && (cfg.S3.Role == nil || cfg.S3.Role.STSEndpoint == "") {
		r.at("s3.endpoint", "is http://, and ca_file is set: write https://, or leave ca_file out")
	}
	if m := &cfg.MySQL; (m.CertFile == "") != (m.KeyFile == "") {
		r.at("mysql", "cert_file and key_file go together")
	}
	if m := &cfg.MySQL; m.CAFile != "" && m.TLS == "skip-verify" {
		r.at("mysql.tls", "is %s, and ca_file is there to check the server's certificate: write require, or leave one of them out", m.TLS)
	}
}
