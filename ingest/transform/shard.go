package transform

import (
	"fmt"
	"strconv"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// Shard is a column that names the part of the source which a row is from. It is of
// the key, so rows of two shards are never one.
type Shard struct {
	// Column is its name in the table.
	Column string `json:"column"`
	// From is what names the shard: topic, database, table, or server: the
	// connector's name, else the server's number.
	From string `json:"from"`
}

// ShardSources are what a shard's name can come from.
var ShardSources = []string{"topic", "database", "table", "server"}

// shardOf gives the name of a change's shard.
func (r *Rules) shardOf(rec *change.Record, c *change.Change) (string, error) {
	var name string
	switch r.shard.From {
	case "topic":
		name = rec.Topic
	case "database":
		name = c.Database
	case "table":
		name = c.Table
	case "server":
		if name = c.Server.Name; name == "" && c.Server.ID != 0 {
			name = strconv.FormatInt(c.Server.ID, 10)
		}
	}
	if name == "" {
		return "", &decode.Error{Reason: decode.ReasonKey, Err: fmt.Errorf("the record names no %s, which shard_column %s is from", r.shard.From, r.shard.Column)}
	}
	return name, nil
}

// apart makes a change's server one of its shard: positions of two shards are never
// compared, though their servers have the same name and number.
func apart(c *change.Change, shard string) {
	c.Server.Name = shard + "/" + c.Server.Name
}

// Sharded gives the shard's column, "" for none.
func (r *Rules) Sharded() string {
	if r == nil || r.shard == nil {
		return ""
	}
	return r.shard.Column
}
