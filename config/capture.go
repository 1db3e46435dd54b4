package config

import (
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// Bounds of what one record may have; Kafka's own default is between.
const (
	minMessage = Size(64 << 10)
	maxMessage = Size(1 << 30)
)

// validateCapture checks the section capture, and fills what follows from others.
func (r *reader) validateCapture(c *Capture) {
	if c.Name == "" {
		r.at("capture.name", "is missing: name the source, e.g. shop; its topics begin with it")
	} else if !tableNameForm.MatchString(c.Name) {
		r.at("capture.name", "%q is no name: write letters, digits, _, - and . only", c.Name)
	}
	if len(c.Servers) == 0 {
		r.at("capture.servers", "is missing: write [mysql://USER@HOST:PORT]")
	}
	for i, s := range c.Servers {
		if why := badServer(s); why != "" {
			r.at(fmt.Sprintf("capture.servers[%d]", i), "%s", why)
		}
	}
	if c.ServerID < 1 || c.ServerID > 1<<32-1 {
		r.at("capture.server_id", "must be a number from 1 to 4294967295 that no server and no replica has")
	}
	if len(c.Tables) == 0 {
		r.at("capture.tables", "is missing: write patterns such as [shop.*]")
	}
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"tables", c.Tables}, {"exclude", c.Exclude}} {
		for i, p := range list.patterns {
			db, table, ok := strings.Cut(p, ".")
			if _, err := path.Match(p, ""); !ok || db == "" || table == "" || err != nil {
				r.at(fmt.Sprintf("capture.%s[%d]", list.key, i), "%q is no pattern: write DATABASE.TABLE, with * and ? for any", p)
			}
		}
	}
	r.validateCaptureTopics(c)
	if c.Load.Parallel < 1 || c.Load.Parallel > 64 {
		r.at("capture.load.parallel", "%d is out of range: write 1 to 64", c.Load.Parallel)
	}
	if c.Load.ChunkRows < 100 {
		r.at("capture.load.chunk_rows", "%d is too little: write at least 100", c.Load.ChunkRows)
	}
	if c.Heartbeat < time.Second {
		r.at("capture.heartbeat", "%s is too often: write at least 1s", FormatDuration(c.Heartbeat))
	}
	if c.Batch.Interval < time.Millisecond || c.Batch.Interval > time.Minute {
		r.at("capture.batch.interval", "%s is out of range: write 1ms to 1m", FormatDuration(c.Batch.Interval))
	}
	if c.Batch.Bytes < Size(64<<10) {
		r.at("capture.batch.bytes", "%s is too little: write at least %s", c.Batch.Bytes, Size(64<<10))
	}
	if c.MaxMessage < minMessage || c.MaxMessage > maxMessage {
		r.at("capture.max_message", "%s is out of range: write %s to %s", c.MaxMessage, minMessage, maxMessage)
	}
}

func (r *reader) validateCaptureTopics(c *Capture) {
	if topic := strings.NewReplacer("{name}", "n", "{database}", "d", "{table}", "t").Replace(c.Topic); !topicForm.MatchString(topic) {
		r.at("capture.topic", "%q makes no name of a topic: write letters, digits, _, -, . and {name}, {database}, {table}", c.Topic)
	}
	if c.StateTopic == "" {
		c.StateTopic = "gscd-capture-" + c.Name
	}
	if c.Name != "" && !topicForm.MatchString(c.StateTopic) {
		r.at("capture.state_topic", "%q is no name of a topic", c.StateTopic)
	}
	if c.Partitions < 1 || c.Partitions > 10_000 {
		r.at("capture.partitions", "%d is out of range: write 1 to 10000", c.Partitions)
	}
	if c.Replication < 0 || c.Replication > 100 {
		r.at("capture.replication", "%d is out of range: write 1 to 100, or 0 for the brokers' default", c.Replication)
	}
}

// badServer says why a text is no address of a server.
func badServer(text string) string {
	const form = "write mysql://USER@HOST:PORT"
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "mysql" {
		return "is no address: " + form
	}
	if _, has := u.User.Password(); has {
		return "has a password in it, which would be printed: use mysql.password"
	}
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) {
		return "has no port of 1 to 65535: " + form
	}
	if u.User.Username() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "is no address of a server: " + form
	}
	return ""
}
