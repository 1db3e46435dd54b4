package config

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Notify is whom the program tells what happens to tables: one of Webhook, Topic and Exec.
type Notify struct {
	// Name of the sink in metrics, logs, and the object that keeps what it was told; names
	// differ. Default: `webhook`, `topic` or `exec`.
	Name string `yaml:"name"`
	// Events to tell, of `seal`, `late`, `stall`, `rolled_back`, `failed`; default all.
	On []string `yaml:"on"`
	// Configured names of the tables; default all.
	Tables []string `yaml:"tables"`
	// From how many late changes of an open label on `late` is told.
	LateChanges int `yaml:"late_changes" default:"1"`
	// How long a seal may be due by the clock before `stall` is told.
	StallAfter time.Duration `yaml:"stall_after" default:"30m"`
	// Webhook, Topic, Exec: nil where the section is absent.
	Webhook *NotifyWebhook `yaml:"webhook"`
	Topic   *NotifyTopic   `yaml:"topic"`
	Exec    *NotifyExec    `yaml:"exec"`
}

// NotifyWebhook is an address that events are posted to.
type NotifyWebhook struct {
	// Address to post to: `https`, or `http` on this host.
	URL string `yaml:"url"`
	// File that holds the address, for one that is a secret itself.
	URLFile string `yaml:"url_file"`
	// File with the key that requests are signed with; neither it nor `secret_env`: they are
	// not signed.
	SecretFile string `yaml:"secret_file"`
	// Name of the variable that has the key.
	SecretEnv string `yaml:"secret_env"`
	// Name of the key for the receiver.
	KeyID string `yaml:"key_id" default:"gscd"`
	// PEM file of the authorities that sign the receiver's certificate.
	CAFile string `yaml:"ca_file"`
	// Longest time for an answer.
	Timeout time.Duration `yaml:"timeout" default:"10s"`
}

// NotifyTopic is a topic that events are written to.
type NotifyTopic struct {
	// The topic; it must exist.
	Name string `yaml:"name"`
	// Addresses `host:port` other than `kafka.brokers`; TLS and login are those of the section `kafka`.
	Brokers []string `yaml:"brokers"`
}

// NotifyExec is a program that is run for each event.
type NotifyExec struct {
	// The program and its arguments; no shell reads them.
	Command []string `yaml:"command"`
	// Longest run; then it is killed with all that it has started.
	Timeout time.Duration `yaml:"timeout" default:"30s"`
}

// NotifyEvents are the events that can be told.
var NotifyEvents = []string{"seal", "late", "stall", "rolled_back", "failed"}

var (
	sinkNameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	keyIDForm    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// notifications reads the list notify.
func (r *reader) notifications(node ast.Node, cfg *Config) {
	if isNull(node) {
		return
	}
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		r.faultf(r.from["notify"], "notify", "is a list: begin each sink with a dash")
		return
	}
	for i, item := range seq.Values {
		var n Notify
		v := reflect.ValueOf(&n).Elem()
		setDefaults(v)
		p := fmt.Sprintf("notify[%d]", i)
		r.from[p] = origin{line: lineOf(r.resolve(item), r.from["notify"].line)}
		r.section(item, v, p)
		cfg.Notify = append(cfg.Notify, n)
	}
}

func (r *reader) validateNotify(cfg *Config) {
	names := map[string]int{}
	for i := range cfg.Notify {
		n, p := &cfg.Notify[i], fmt.Sprintf("notify[%d]", i)
		var kinds []string
		if n.Webhook != nil {
			kinds = append(kinds, "webhook")
		}
		if n.Topic != nil {
			kinds = append(kinds, "topic")
		}
		if n.Exec != nil {
			kinds = append(kinds, "exec")
		}
		if len(kinds) != 1 {
			r.at(p, "has %d of webhook, topic and exec: a sink is one of them", len(kinds))
			continue
		}
		if n.Name == "" {
			n.Name = kinds[0]
		}
		if first, again := names[n.Name]; again {
			r.at(p, "is called %s, as notify[%d] is: give each a name", n.Name, first)
		}
		names[n.Name] = i
		if !sinkNameForm.MatchString(n.Name) {
			r.at(p+".name", "%q is no name: write letters, digits, - and _, a letter first", n.Name)
		}
		if len(n.On) == 0 {
			n.On = slices.Clone(NotifyEvents)
		}
		for _, on := range n.On {
			if !slices.Contains(NotifyEvents, on) {
				r.at(p+".on", "%q is no event: write %s", on, strings.Join(NotifyEvents, ", "))
			}
		}
		for _, name := range n.Tables {
			if _, ok := cfg.Table(name); !ok {
				r.at(p+".tables", "no table is called %s", name)
			}
		}
		if n.LateChanges < 1 {
			r.at(p+".late_changes", "%d is less than one change", n.LateChanges)
		}
		r.validateSink(cfg, n, p)
	}
}

func (r *reader) validateSink(cfg *Config, n *Notify, p string) {
	switch {
	case n.Webhook != nil:
		r.validateWebhook(n.Webhook, p+".webhook")
	case n.Topic != nil:
		if !topicForm.MatchString(n.Topic.Name) {
			r.at(p+".topic.name", "%q is no name of a topic", n.Topic.Name)
		}
		for _, t := range cfg.Tables {
			if slices.Contains(t.Topics, n.Topic.Name) {
				r.at(p+".topic.name", "%s is a topic of table %s too: what is told there would be read as changes", n.Topic.Name, t.Name)
			}
		}
		r.validateBrokers(p+".topic.brokers", n.Topic.Brokers)
		if len(n.Topic.Brokers) == 0 && len(cfg.Kafka.Brokers) == 0 {
			r.at(p+".topic.brokers", "is missing, and so is kafka.brokers")
		}
	case n.Exec != nil:
		if len(n.Exec.Command) == 0 || n.Exec.Command[0] == "" {
			r.at(p+".exec.command", "is missing: write [PROGRAM, ARGUMENT, …]")
		}
		if n.Exec.Timeout <= 0 {
			r.at(p+".exec.timeout", "is no time to run in")
		}
	}
}

func (r *reader) validateWebhook(w *NotifyWebhook, p string) {
	switch {
	case w.URL == "" && w.URLFile == "":
		r.at(p+".url", "is missing: write https://HOST/PATH, or url_file")
	case w.URL != "" && w.URLFile != "":
		r.at(p, "url and url_file exclude each other")
	case w.URL != "":
		u, err := url.Parse(w.URL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			r.at(p+".url", "is no URL: write https://HOST/PATH")
		case u.User != nil:
			r.at(p+".url", "has a login in it, which would be printed: use url_file")
		case u.Scheme == "http" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()):
			r.at(p+".url", "is http, which others can read on the way: write https; http goes on this host only")
		}
	}
	if w.SecretFile != "" && w.SecretEnv != "" {
		r.at(p, "secret_file and secret_env exclude each other")
	}
	if w.SecretEnv != "" && !variableForm.MatchString(w.SecretEnv) {
		r.at(p+".secret_env", "is no name of a variable: the secret itself does not stand here")
	}
	if !keyIDForm.MatchString(w.KeyID) {
		r.at(p+".key_id", "%q is no name of a key: write letters, digits, . - and _", w.KeyID)
	}
	if w.Timeout <= 0 {
		r.at(p+".timeout", "is no time to answer in")
	}
}

func (r *reader) validateTracing(t *Tracing) {
	switch {
	case t == nil:
		return
	case t.Endpoint == "":
		r.at("tracing.endpoint", "is missing: write http://HOST:4318")
	default:
		r.validateURL("tracing.endpoint", t.Endpoint, "tracing.headers_file")
	}
	if t.Sample == 0 {
		r.at("tracing.sample", "is nothing: leave the section out")
	}
}
