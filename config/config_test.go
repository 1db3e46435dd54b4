package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/alloctest"
)

var rewrite = flag.Bool("rewrite", false, "write what Load says into testdata/*.bad.yml")

// checks stand in for those of the packages that know.
var checks = Checks{
	Zone: func(name string) error {
		if !slices.Contains([]string{"UTC", "Asia/Shanghai"}, name) {
			return fmt.Errorf("time zone %q is unknown", name)
		}
		return nil
	},
	Format: func(name string) error {
		if !slices.Contains([]string{"auto", "debezium-json", "debezium-avro"}, name) {
			return fmt.Errorf("format %q is unknown", name)
		}
		return nil
	},
	ColumnType: func(text string) error {
		if strings.Contains(text, "99") {
			return fmt.Errorf("type %q is unknown", text)
		}
		return nil
	},
}

func load(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Load(Input{File: "gscd.yaml", Data: []byte(text), Checks: checks})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// One bad file for each mistake. Its first lines say what Load must say, all of
// it; -rewrite writes them.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		body := string(data)
		for strings.HasPrefix(body, "# want: ") {
			line, rest, _ := strings.Cut(body, "\n")
			want, body = append(want, strings.TrimPrefix(line, "# want: ")), rest
		}
		_, err = Load(Input{File: name, Data: []byte(body), Checks: checks})
		var faults *Faults
		if !errors.As(err, &faults) {
			t.Errorf("%s: no fault found: %v", name, err)
			continue
		}
		var got []string
		for _, f := range faults.List {
			got = append(got, f.String())
		}
		if *rewrite {
			head := ""
			for _, g := range got {
				head += "# want: " + g + "\n"
			}
			if err := os.WriteFile(name, []byte(head+body), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: a secret is in the message: %v", name, err)
		}
	}
}

// The file of the documentation.
const example = `
kafka:
  brokers: [kafka:9092, kafka-2:9092]
  tls: {ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem}
  sasl: {mechanism: scram-sha-512, username: gscd, password: hush}
schema_registry: {url: "http://registry:8081"}
s3: {endpoint: "http://localhost:9000", region: us-east-1, path_style: true}      # else the AWS defaults
calendar: {granularity: day, timezone: Asia/Shanghai, cutover: 04:00}
defaults:
  drift: {wait: 15m, idle: 5m}
  max_clock_skew: 5m
  late: fail
tables:
  - name: user_dim
    location: s3://lake/dim/user_dim
    topics: [shop.user_dim]
    format: auto
    key: [id]
    event_time: column:updated_at
    write: {mode: copy-on-write}
    batch: {interval: 60s, rows: 200000, bytes: 64MiB, max_interval: 10m}
    late: fold
    future: dead_letter
    truncate: apply
    change_data: true
    protect: backup
    partition_by: [city]
    columns: {amount: "decimal(12,2)"}
    start: 2022-07-16T00:00:00+08:00
    on_lost_offsets: fail
    reload: replace
    max_delete_fraction: 12.5%
    tombstones: ignore
    mode: upsert
    partial_image: merge
    null_key: value
    new_column: add
    missing_column: keep
    ddl: follow
    bad_value: dead_letter
    compacted: refuse
    dead_letter: {limit: 0, to: "topic:shop.dead"}
    seal: {proof: heartbeat, topic: beats, checksum: true}
    retention: {history: 2d, savepoints: keep 90 days then month ends for 7y, rolled_back: 2w}
  - location: file:///lake/order_fact/
    topics: [shop.orders, shop.orders_old]
    start: shop.orders/0=120, shop.orders/1=98
    retention: 30d
`

func TestExample(t *testing.T) {
	cfg := load(t, example)
	if got, want := cfg.Kafka, (Kafka{
		Brokers: []string{"kafka:9092", "kafka-2:9092"}, ClientID: "gscd", FetchBytes: 64 << 20,
		TLS:  &TLS{CAFile: "ca.pem", CertFile: "cert.pem", KeyFile: "key.pem"},
		SASL: &SASL{Mechanism: "scram-sha-512", Username: "gscd", Password: "hush"},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("kafka %+v, want %+v", got, want)
	}
	if want := (S3{Endpoint: "http://localhost:9000", Region: "us-east-1", PathStyle: true, LogStore: "conditional-put", DynamoDBTable: "delta_log", DynamoDBScheme: "s3a"}); cfg.S3 != want {
		t.Errorf("s3 %+v", cfg.S3)
	}
	if want := (Calendar{"day", "Asia/Shanghai", "04:00"}); cfg.Calendar != want {
		t.Errorf("calendar %+v", cfg.Calendar)
	}
	first := Table{
		Name: "user_dim", Location: "s3://lake/dim/user_dim", Topics: []string{"shop.user_dim"},
		Settings: Settings{
			Format: "auto", Avro: Avro{Frame: "auto"}, Key: []string{"id"}, EventTime: "column:updated_at",
			Drift: Drift{15 * time.Minute, 5 * time.Minute}, MaxClockSkew: 5 * time.Minute,
			Write: Write{"copy-on-write"}, Batch: Batch{time.Minute, 200000, 64 << 20, 10 * time.Minute},
			Late: "fold", Future: "dead_letter", Truncate: "apply", ChangeData: true, Protect: "backup", ProtectChosen: true,
			PartitionBy: []string{"city"}, Columns: map[string]string{"amount": "decimal(12,2)"},
			Start: Start{At: "time"}, OnLostOffsets: "fail",
			Reload: "replace", MaxDeleteFraction: .125, Tombstones: "ignore", TombstonesChosen: true, Mode: "upsert",
			PartialImage: "merge", NullKey: "value", NewColumn: "add", MissingColumn: "keep", DDL: "follow",
			BadValue: "dead_letter", Compacted: "refuse", DeadLetter: DeadLetter{0, "topic:shop.dead"}, MaxRecord: 64 << 20,
			Seal: Seal{Proof: "heartbeat", Topic: "beats", Checksum: true, Manifest: "none"},
			Retention: Retention{
				History: 48 * time.Hour, RolledBack: 14 * 24 * time.Hour,
				Savepoints: Policy{Keep: Span{90, "day"}, Then: []Stage{{Ends: "month", Until: Span{7, "year"}}}},
			},
			Maintain: Maintain{0, 0.35, 4 << 20, 0.2, true},
		},
	}
	got := cfg.Tables[0]
	if at := got.Start.Time.UTC().Format(time.RFC3339); at != "2022-07-15T16:00:00Z" {
		t.Errorf("start %s", at)
	}
	got.Start.Time = time.Time{}
	if !reflect.DeepEqual(got, first) {
		t.Errorf("first table\n%+v, want\n%+v", got, first)
	}
	second := cfg.Tables[1]
	if second.Name != "order_fact" || second.Late != "fail" || second.Drift.Wait != 15*time.Minute || second.TombstonesChosen {
		t.Errorf("second table %+v", second)
	}
	if want := []StartOffset{{"shop.orders", 0, 120}, {"shop.orders", 1, 98}}; !slices.Equal(second.Start.Offsets, want) {
		t.Errorf("offsets %v, want %v", second.Start.Offsets, want)
	}
	if got := second.Retention; got.Savepoints.String() != "keep 30 days" || got.History != 24*time.Hour {
		t.Errorf("retention %+v", got)
	}
	if one, ok := cfg.Table("order_fact"); !ok || one != &cfg.Tables[1] {
		t.Error("Table does not find order_fact")
	}
	if _, ok := cfg.Table("nobody"); ok {
		t.Error("Table finds nobody")
	}
}

func TestDefaults(t *testing.T) {
	cfg := load(t, "calendar: {timezone: UTC}\ntables: [{location: /lake/t}]")
	s := cfg.Tables[0].Settings
	want := Settings{
		Format: "auto", Avro: Avro{Frame: "auto"}, EventTime: "source", Drift: Drift{10 * time.Minute, 5 * time.Minute}, MaxClockSkew: 5 * time.Minute,
		Write: Write{"merge-on-read"}, Batch: Batch{time.Minute, 200000, 256 << 20, 10 * time.Minute},
		Late: "fold", Future: "dead_letter", Truncate: "apply", Protect: "backup", Start: Start{At: "earliest"},
		OnLostOffsets: "fail", Reload: "replace", MaxDeleteFraction: .2, Tombstones: "ignore", Mode: "upsert",
		PartialImage: "merge", NullKey: "value", NewColumn: "add", MissingColumn: "keep", DDL: "follow", BadValue: "dead_letter",
		Compacted: "refuse", DeadLetter: DeadLetter{.01, "table"}, MaxRecord: 64 << 20, Seal: Seal{Proof: "none", Manifest: "none"},
		Retention: Retention{24 * time.Hour, Policy{Forever: true}, 30 * 24 * time.Hour, Tier{}},
		Maintain:  Maintain{0, 0.35, 4 << 20, 0.2, true},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
	if cfg.Kafka.TLS != nil || cfg.Kafka.SASL != nil || cfg.Calendar != (Calendar{"day", "UTC", "00:00"}) {
		t.Errorf("config %+v", cfg)
	}
	if got := load(t, "calendar: {timezone: UTC, granularity: hour}\ntables: [{location: /lake/t}]").Tables[0].Protect; got != "none" {
		t.Errorf("hours: protect %s, want none", got)
	}
	if got := load(t, ""); len(got.Tables) != 0 {
		t.Errorf("an empty file has tables: %+v", got)
	}
	if got := load(t, "kafka: {tls: {}}"); got.Kafka.TLS == nil {
		t.Error("an empty section tls is no TLS")
	}
	if got := load(t, "kafka:\n  # tls: {}\ntables:\n"); got.Kafka.TLS != nil {
		t.Error("a section without keys is TLS")
	}
}

func TestAnchors(t *testing.T) {
	cfg := load(t, `
calendar: {timezone: UTC}
defaults: &d {late: fail, key: [id]}
tables:
  - &t {location: /lake/a, late: fold}
  - {<<: *t, location: /lake/b, drift: &w {wait: 7m}}
  - {location: /lake/c, drift: *w}
`)
	for i, want := range []struct {
		late string
		wait time.Duration
	}{{"fold", 10 * time.Minute}, {"fold", 7 * time.Minute}, {"fail", 7 * time.Minute}} {
		if got := cfg.Tables[i]; got.Late != want.late || got.Drift.Wait != want.wait || got.Key[0] != "id" {
			t.Errorf("tables[%d]: late %s, wait %s, key %v", i, got.Late, got.Drift.Wait, got.Key)
		}
	}
}

func TestEnvironment(t *testing.T) {
	cfg, err := Load(Input{
		File: "gscd.yaml", Data: []byte("kafka: {brokers: [file:1], client_id: file}\ncalendar: {timezone: UTC}\ndefaults: {late: fail}\ntables: [{location: /lake/t}, {location: /lake/u, late: fold}]"),
		Env: []string{
			"GSCD_KAFKA_BROKERS=a:1, b:2", "GSCD_KAFKA_SASL_MECHANISM=plain", "GSCD_KAFKA_SASL_USERNAME=gscd",
			"GSCD_KAFKA_SASL_PASSWORD_FILE=/run/secrets/kafka", "GSCD_KAFKA_TLS_CA_FILE=ca.pem",
			"GSCD_CALENDAR_TIMEZONE=Asia/Shanghai", "GSCD_DEFAULTS_LATE=dead_letter", "GSCD_DEFAULTS_DRIFT_WAIT=20m",
			"GSCD_DEFAULTS_COLUMNS=amount=decimal(12,2), n=int", "GSCD_DEFAULTS_TOMBSTONES=ignore",
			"GSCD_CONFIG=x", "GSCD_S3_REGION=", "GSCD_KAFKA_BROKER=", "GSCD_TESTDATA=y", "GSCD_KAFKA_SERVICE_HOST=10.0.0.1", "GSCD_KAFKA_PORT_9092_TCP_ADDR=10.0.0.1", "HOME=/",
		},
		ReadFile: func(name string) ([]byte, error) {
			if name != "/run/secrets/kafka" {
				return nil, os.ErrNotExist
			}
			return []byte("hush\n"), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if k := cfg.Kafka; !slices.Equal(k.Brokers, []string{"a:1", "b:2"}) || k.SASL.PasswordFile != "/run/secrets/kafka" || k.SASL.Password != "" || k.TLS.CAFile != "ca.pem" || k.ClientID != "file" {
		t.Errorf("kafka %+v", k)
	}
	if cfg.Calendar.Timezone != "Asia/Shanghai" {
		t.Errorf("timezone %s", cfg.Calendar.Timezone)
	}
	a, b := cfg.Tables[0], cfg.Tables[1]
	if a.Late != "dead_letter" || b.Late != "fold" || a.Drift.Wait != 20*time.Minute || !a.TombstonesChosen {
		t.Errorf("tables %+v", cfg.Tables)
	}
	if want := map[string]string{"amount": "decimal(12,2)", "n": "int"}; !reflect.DeepEqual(a.Columns, want) {
		t.Errorf("columns %v", a.Columns)
	}
}

func TestEnvironmentFaults(t *testing.T) {
	_, err := Load(Input{Env: []string{
		"GSCD_KAFKA_BROKER=a:1", "GSCD_CALENDAR_CUTOVER=4", "GSCD_KAFKA_SASL_PASSWORD=hush", "GSCD_KAFKA_SASL_PASSWORD_FILE=/x",
		"GSCD_S3_REGION_FILE=/nowhere", "GSCD_DEFAULTS_LATE=maybe",
	}, ReadFile: func(name string) ([]byte, error) { return nil, fmt.Errorf("open %s: no such file", name) }})
	const want = `configuration: 7 faults
  GSCD_DEFAULTS_LATE: "maybe" is unknown: write fold, dead_letter, fail
  GSCD_KAFKA_BROKER: unknown variable: did you mean GSCD_KAFKA_BROKERS?
  GSCD_S3_REGION_FILE: open /nowhere: no such file
  kafka.sasl.mechanism: is missing: a login has mechanism, username and password; oauthbearer a token_file, aws-msk-iam a region
  kafka.sasl.username: is missing: a login has mechanism, username and password
  GSCD_KAFKA_SASL_PASSWORD_FILE: is set beside password: leave one of them out
  GSCD_CALENDAR_CUTOVER: "4" is no time of day: write HH:MM from 00:00 to 23:59`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// Every variable stands for one key.
func TestEnvironmentNamesDiffer(t *testing.T) {
	paths := envPaths()
	seen := map[string]string{}
	for name, path := range paths {
		if other, twice := seen[path]; twice {
			t.Errorf("%s and %s set %s", name, other, path)
		}
		seen[path] = name
		if !regexp.MustCompile(`^GSCD_(KAFKA|SCHEMA_REGISTRY|S3|GCS|AZURE|MYSQL|CAPTURE|TRANSFORM|CALENDAR|HTTP|LOG|TRACING|PROCESS|SCALE_OUT|DEFAULTS)_[A-Z0-9_]+$`).MatchString(name) {
			t.Errorf("%s is outside the known sections", name)
		}
	}
	if len(paths) < 60 || paths["GSCD_KAFKA_SASL_PASSWORD"] != "kafka.sasl.password" {
		t.Errorf("%d variables: %v", len(paths), paths)
	}
}

func TestFlags(t *testing.T) {
	flags := []Flag{
		{"--location", "table.location", "/tmp/user_dim"},
		{"--topic", "table.topics", "shop.user_dim"},
		{"--brokers", "kafka.brokers", "a:1"},
		{"--key", "table.key", "id,region"},
		{"--timezone", "calendar.timezone", "UTC"},
		{"--drift-wait", "table.drift.wait", "30m"},
	}
	cfg, err := Load(Input{Flags: flags, Env: []string{"GSCD_CALENDAR_TIMEZONE=Asia/Shanghai", "GSCD_DEFAULTS_DRIFT_WAIT=40m"}, Checks: checks})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Calendar.Timezone != "UTC" || cfg.Kafka.Brokers[0] != "a:1" || len(cfg.Tables) != 1 {
		t.Errorf("config %+v", cfg)
	}
	if tab := cfg.Tables[0]; tab.Name != "user_dim" || tab.Location != "/tmp/user_dim" || !slices.Equal(tab.Key, []string{"id", "region"}) ||
		!slices.Equal(tab.Topics, []string{"shop.user_dim"}) || tab.Drift.Wait != 30*time.Minute || tab.Drift.Idle != 5*time.Minute {
		t.Errorf("table %+v", tab)
	}
	one := Input{Data: []byte("calendar: {timezone: UTC}\ntables: [{location: /lake/t, late: fail}]"), Flags: []Flag{{"--late", "table.late", "fold"}}}
	if cfg, err = Load(one); err != nil || cfg.Tables[0].Late != "fold" || cfg.Tables[0].Location != "/lake/t" {
		t.Errorf("a flag on top of the file: %+v, %v", cfg, err)
	}
	for _, c := range []struct {
		data  string
		flags []Flag
		want  string
	}{
		{"calendar: {timezone: UTC}\ntables: [{location: /lake/t}]", []Flag{{"--drift-wait", "table.drift.wait", "1m"}}, "configuration: --drift-wait: 1m must be more than max_clock_skew"},
		{"calendar: {timezone: UTC}\ntables: [{location: /lake/t}, {location: /lake/u}]", []Flag{{"--late", "table.late", "fold"}}, "configuration: --late: sets a table's key, and 2 tables are configured"},
		{"", []Flag{{"--late", "table.late", "x"}, {"--nothing", "nothing.at.all", "x"}, {"--calendar", "calendar", "x"}}, "--nothing: sets the unknown key"},
	} {
		_, err := Load(Input{Data: []byte(c.data), Flags: c.flags})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.flags, err, c.want)
		}
	}
}

// What Show prints is the same configuration, but for secrets.
func TestShow(t *testing.T) {
	for name, text := range map[string]string{
		"example":  example,
		"defaults": "calendar: {timezone: UTC}\ntables: [{location: /lake/t}]",
		"empty":    "",
		"odd":      "kafka: {tls: {}, group: 'a: #b'}\ncalendar: {timezone: UTC, granularity: 15m}\ntables: [{location: '/lake/01', name: '0777', retention: 1y, topics: [\"1e3\", 'true'], start: latest, max_delete_fraction: 0.3333333333}]",
	} {
		cfg := load(t, text)
		var out bytes.Buffer
		if err := cfg.Show(&out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "hush") {
			t.Errorf("%s: a secret is shown:\n%s", name, out.String())
		}
		back := load(t, out.String())
		if s := cfg.Kafka.SASL; s != nil {
			if got := back.Kafka.SASL.Password.Reveal(); got != masked {
				t.Errorf("%s: password %q", name, got)
			}
			back.Kafka.SASL.Password = s.Password
		}
		for i := range cfg.Tables {
			if !cfg.Tables[i].Start.Time.Equal(back.Tables[i].Start.Time) {
				t.Errorf("%s: start %s", name, back.Tables[i].Start.Time)
			}
			back.Tables[i].Start.Time = cfg.Tables[i].Start.Time
			back.Tables[i].TombstonesChosen = cfg.Tables[i].TombstonesChosen // shown, thus chosen
			back.Tables[i].ProtectChosen = cfg.Tables[i].ProtectChosen
		}
		if !reflect.DeepEqual(cfg, back) {
			t.Errorf("%s: read back\n%+v\nwant\n%+v\nfrom\n%s", name, back, cfg, out.String())
		}
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	cfg := load(t, example)
	for _, text := range []string{fmt.Sprint(*cfg.Kafka.SASL), fmt.Sprintf("%+v %#v", *cfg.Kafka.SASL, *cfg.Kafka.SASL), fmt.Sprintf("%s %q", cfg.Kafka.SASL.Password, cfg.Kafka.SASL.Password)} {
		if strings.Contains(text, "hush") {
			t.Errorf("printed: %s", text)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(example))
	files, _ := filepath.Glob("testdata/*.bad.yml")
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		alloctest.Within(t, len(data), 1<<14, 8<<20, func() { _, _ = Load(Input{Data: data}) })
		cfg, err := Load(Input{Data: data})
		if err != nil {
			var faults *Faults
			if !errors.As(err, &faults) || len(faults.List) == 0 {
				t.Fatalf("%v is no list of faults", err)
			}
			return
		}
		var out bytes.Buffer
		if err := cfg.Show(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Input{Data: out.Bytes()}); err != nil && cfg.Kafka.SASL == nil {
			t.Fatalf("shown and read back: %v\n%s", err, out.String())
		}
	})
}
