package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	granularityForm = regexp.MustCompile(`^(day|hour|week|month|[1-9][0-9]?m)$`)
	cutoverForm     = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
	tableNameForm   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	roleForm        = regexp.MustCompile(`^arn:[a-z-]+:iam::[^:]*:role/.+$`)
	sessionForm     = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{2,64}$`)
	topicForm       = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
)

// reserved begins the names of the hidden columns of data files.
const reserved = "__gscd_"

// maxSavepoints is how many labels of less than an hour a table's checkpoints may list.
const maxSavepoints = 100_000

// where finds out where a setting was written: itself, else in the section
// defaults, else the nearest section around it.
func (r *reader) where(setting string) (origin, string) {
	for p := setting; p != ""; p = p[:max(0, strings.LastIndexAny(p, ".["))] {
		if o, ok := r.from[p]; ok {
			return o, setting
		}
		if _, inTable, ok := strings.Cut(p, "]."); ok && strings.HasPrefix(p, "tables[") {
			if o, ok := r.from["defaults."+inTable]; ok {
				_, inTable, _ = strings.Cut(setting, "].")
				return o, "defaults." + inTable
			}
		}
	}
	return origin{}, setting
}

func (r *reader) at(setting, format string, args ...any) {
	o, p := r.where(setting)
	r.faultf(o, p, format, args...)
}

// validate checks what one value alone does not show.
func (r *reader) validate(cfg *Config, checks Checks) {
	r.validateKafka(&cfg.Kafka)
	r.validateRegistry(&cfg.SchemaRegistry)
	r.validateS3(&cfg.S3)
	r.validateGCS(&cfg.GCS)
	r.validateAzure(&cfg.Azure)
	r.validateCalendar(cfg, checks)
	r.validateProcess(cfg)
	r.validateScaleOut(cfg)
	if cfg.Capture != nil {
		r.validateCapture(cfg.Capture)
	}
	for i := range cfg.Tables {
		t, p := &cfg.Tables[i], fmt.Sprintf("tables[%d]", i)
		if t.Protect == "" {
			t.Protect = "none"
			if slices.Contains([]string{"day", "week", "month"}, cfg.Calendar.Granularity) {
				t.Protect = "backup"
			}
		}
		r.validateTable(t, p)
		r.validateColumns(t, p, checks)
		r.validateTimes(t, p)
		r.validateRetention(t, p, cfg.Calendar.Granularity)
		r.validateMaintain(t, p)
		for _, z := range []struct{ key, zone string }{{"canal", t.Canal.Timezone}, {"ogg", t.OGG.Timezone}} {
			if z.zone == "" || checks.Zone == nil {
				continue
			}
			if err := checks.Zone(z.zone); err != nil {
				r.at(p+"."+z.key+".timezone", "%v", err)
			}
		}
		if checks.Format != nil {
			if err := checks.Format(t.Format); err != nil {
				r.at(p+".format", "%v", err)
			}
		}
		r.validateSchemaTopic(t, p)
		r.validateTransform(cfg, t, p, checks)
		if strings.HasSuffix(t.Format, "-avro") && cfg.SchemaRegistry.URL == "" {
			r.at(p+".format", "%s needs schema_registry.url", t.Format)
		}
	}
	r.validateTogether(cfg.Tables)
	r.validateNotify(cfg)
	r.validateContradictions(cfg)
	r.validateTracing(cfg.Tracing)
}

// validateTransform checks filters and transforms.
func (r *reader) validateTransform(cfg *Config, t *Table, p string, checks Checks) {
	for _, name := range slices.Sorted(maps.Keys(t.Cast)) {
		if checks.ColumnType == nil {
			break
		}
		if err := checks.ColumnType(t.Cast[name]); err != nil {
			r.at(p+".cast."+name, "%v", err)
		}
	}
	if checks.Transform == nil {
		return
	}
	err := checks.Transform(t, cfg.Transform.HashSecret)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, fault := range many.Unwrap() {
			r.at(p, "%v", fault)
		}
	} else if err != nil {
		r.at(p, "%v", err)
	}
}

// validateSchemaTopic checks what the topic of a connector's DDL asks for.
func (r *reader) validateSchemaTopic(t *Table, p string) {
	switch {
	case t.SchemaTopic == "":
		return
	case !topicForm.MatchString(t.SchemaTopic):
		r.at(p+".schema_topic", "%q is no name of a topic", t.SchemaTopic)
	case slices.Contains(t.Topics, t.SchemaTopic):
		r.at(p+".schema_topic", "%s is one of the table's topics too: rows come on others", t.SchemaTopic)
	}
	if t.Format != "auto" && t.Format != "debezium-json" {
		r.at(p+".schema_topic", "belongs to format: debezium-json, and %s has none", t.Format)
	}
	if t.Tombstones == "delete" && t.Source == "" {
		r.at(p+".schema_topic", "with tombstones: delete the source is needed, DATABASE.TABLE: a tombstone does not say of which table it is")
	}
}

func (r *reader) validateBrokers(setting string, brokers []string) {
	for i, b := range brokers {
		host, port, err := net.SplitHostPort(b)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || host == "" || n < 1 || n > 65535 {
			r.at(fmt.Sprintf("%s[%d]", setting, i), "%q is no broker: write HOST:PORT, e.g. kafka:9092", b)
		}
	}
}

func (r *reader) validateKafka(k *Kafka) {
	r.validateBrokers("kafka.brokers", k.Brokers)
	if t := k.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		r.at("kafka.tls", "cert_file and key_file go together")
	}
	if k.FetchBytes < minFetchBytes {
		r.at("kafka.fetch_bytes", "%s is too little: write at least %s", k.FetchBytes, minFetchBytes)
	}
	if k.SASL != nil {
		r.validateSASL(k.SASL)
	}
}

// minFetchBytes is what one fetch asks for at least.
const minFetchBytes = Size(1 << 20)

func (r *reader) validateSASL(s *SASL) {
	set := func(key string) bool { _, ok := r.from["kafka.sasl."+key]; return ok }
	switch {
	case s.Mechanism == "" && set("mechanism"): // unknown, which is said already
		if s.TokenFile != "" {
			return
		}
	case s.Mechanism == "":
		r.at("kafka.sasl.mechanism", "is missing: a login has mechanism, username and password; oauthbearer a token_file, aws-msk-iam a region")
	case s.Mechanism == "aws-msk-iam":
		if s.Region == "" {
			r.at("kafka.sasl.region", "is missing: aws-msk-iam signs for the region of the MSK cluster")
		}
		for _, key := range []string{"username", "password", "password_file", "token_file", "extensions"} {
			if set(key) {
				r.at("kafka.sasl."+key, "does not belong to aws-msk-iam, which logs in with the credentials of the AWS environment")
			}
		}
		if s.RoleARN != "" && !roleForm.MatchString(s.RoleARN) {
			r.at("kafka.sasl.role_arn", "%q is no role: write arn:aws:iam::ACCOUNT:role/NAME", s.RoleARN)
		}
		if s.ExternalID != "" && s.RoleARN == "" {
			r.at("kafka.sasl.external_id", "belongs to a role_arn")
		}
		return
	case s.Mechanism == "oauthbearer":
		if s.TokenFile == "" {
			r.at("kafka.sasl.token_file", "is missing: oauthbearer has its token in a file")
		}
		for _, key := range []string{"username", "password", "password_file"} {
			if set(key) {
				r.at("kafka.sasl."+key, "does not belong to oauthbearer, which has a token_file")
			}
		}
		for _, key := range []string{"region", "role_arn", "external_id"} {
			if set(key) {
				r.at("kafka.sasl."+key, "belongs to the mechanism aws-msk-iam, not to oauthbearer")
			}
		}
		return
	}
	for _, key := range []string{"token_file", "extensions"} {
		if set(key) && s.Mechanism != "" {
			r.at("kafka.sasl."+key, "belongs to the mechanism oauthbearer, not to %s", s.Mechanism)
		}
	}
	for _, key := range []string{"region", "role_arn", "external_id"} {
		if set(key) && s.Mechanism != "" {
			r.at("kafka.sasl."+key, "belongs to the mechanism aws-msk-iam, not to %s", s.Mechanism)
		}
	}
	if s.Username == "" {
		r.at("kafka.sasl.username", "is missing: a login has mechanism, username and password")
	}
	switch {
	case s.Password == "" && s.PasswordFile == "":
		r.at("kafka.sasl.password", "is missing: a login has mechanism, username and password, or password_file")
	case s.PasswordFile != "" && s.Password != "" && r.from["kafka.sasl.password_file"].name != "" && r.from["kafka.sasl.password"].name == "":
		s.Password = "" // the environment goes before the file
	case s.PasswordFile != "" && s.Password != "":
		r.at("kafka.sasl.password_file", "is set beside password: leave one of them out")
	}
}

// minToken is the length of a token that nobody guesses.
const minToken = 16

func (r *reader) validateHTTP(h *HTTP) {
	r.listenAddress("http.address", &h.Address)
	r.listenAddress("http.pprof", &h.Pprof)
	if h.Pprof != "" && h.Pprof == h.Address && !strings.HasSuffix(h.Pprof, ":0") {
		r.at("http.pprof", "is http.address: profiles are answered at a port of their own")
	}
	if host, _, err := net.SplitHostPort(h.Pprof); err == nil && h.Token == "" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		r.at("http.pprof", "%s can be reached from elsewhere, and profiles show what the process works on: give a port alone, or set http.token", h.Pprof)
	}
	switch token := h.Token.Reveal(); {
	case token == "":
	case len(token) < minToken:
		r.at("http.token", "is shorter than %d characters, and could be guessed", minToken)
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		r.at("http.token", "has a character that a header can't carry: use letters, digits and ASCII punctuation")
	}
	t := h.TLS
	switch {
	case t == nil:
	case t.CertFile == "" && t.KeyFile == "" && t.ClientCAFile != "":
		r.at("http.tls.client_ca_file", "needs cert_file and key_file: clients show certificates to a server that has one")
	case t.CertFile == "" && t.KeyFile == "":
		r.at("http.tls", "has no cert_file and key_file")
	case t.CertFile == "" || t.KeyFile == "":
		r.at("http.tls", "cert_file and key_file go together")
	}
}

// listenAddress checks an address to listen at, and completes a port alone.
func (r *reader) listenAddress(setting string, a *string) {
	if *a == "" {
		return
	}
	text := *a
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
		r.at(setting, "%q is no address: write HOST:PORT, or a port of this host, e.g. 9090", *a)
		return
	}
	*a = net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
}

// minBatchMemory is enough for a batch of common records.
const minBatchMemory = 1 << 20

func (r *reader) validateProcess(cfg *Config) {
	r.validateHTTP(&cfg.HTTP)
	if p := &cfg.Process; p.BatchMemory != 0 && p.BatchMemory < minBatchMemory {
		r.at("process.batch_memory", "%s is too little to work with: give at least %s, or leave it out", p.BatchMemory, Size(minBatchMemory))
	} else if p.HeavyTasks < 0 {
		r.at("process.heavy_tasks", "%d is less than none: give a number from 1 on, or leave it out", p.HeavyTasks)
	} else if p.MaintainInterval < time.Second {
		r.at("process.maintain_interval", "%s is less than a second", p.MaintainInterval)
	}
}

func (r *reader) validateRegistry(s *SchemaRegistry) {
	own := 0 // addresses of Apicurio's own API
	for _, url := range s.URLs() {
		r.validateURL("schema_registry.url", url, "schema_registry.username and .password")
		if strings.Contains(url, "/apis/registry/v") {
			own++
		}
	}
	if own > 0 && own < len(s.URLs()) {
		r.at("schema_registry.url", "has addresses of Apicurio's own API and of Confluent's: give those of one registry in one API")
	}
	if (s.Username == "") != (s.Password == "") {
		r.at("schema_registry", "username and password go together")
	}
	if s.Username != "" && s.Token != "" {
		r.at("schema_registry", "username and token exclude each other")
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		r.at("schema_registry", "cert_file and key_file go together")
	}
	if s.URL == "" && (s.Username != "" || s.Token != "" || s.CAFile != "" || s.CertFile != "") {
		r.at("schema_registry", "has no url")
	}
}

func (r *reader) validateS3(s *S3) {
	r.validateURL("s3.endpoint", s.Endpoint, "s3.access_key_id and .secret_access_key")
	if (s.AccessKeyID == "") != (s.SecretAccessKey == "") {
		r.at("s3", "access_key_id and secret_access_key go together")
	}
	if s.SessionToken != "" && s.AccessKeyID == "" {
		r.at("s3.session_token", "belongs to an access_key_id")
	}
	if s.Role != nil {
		r.validateS3Role(s.Role)
	}
	r.validateS3Encryption(&s.Encryption)
	if s.Endpoint != "" && (s.FIPS || s.DualStack) {
		r.at("s3.endpoint", "is set beside fips or dualstack, which choose among Amazon's endpoints: leave one of them out")
	}
	r.validateURL("s3.dynamodb_endpoint", s.DynamoDBEndpoint, "s3.access_key_id and .secret_access_key")
	if s.LogStore == "dynamodb" {
		return
	}
	for _, f := range []struct{ key, value, usual string }{
		{"dynamodb_table", s.DynamoDBTable, "delta_log"}, {"dynamodb_region", s.DynamoDBRegion, ""},
		{"dynamodb_endpoint", s.DynamoDBEndpoint, ""}, {"dynamodb_scheme", s.DynamoDBScheme, "s3a"},
	} {
		if f.value != f.usual {
			r.at("s3."+f.key, "is used with log_store: dynamodb only")
		}
	}
}

// Times that STS gives credentials for.
const minRole, maxRole = 15 * time.Minute, 12 * time.Hour

func (r *reader) validateS3Role(s *S3Role) {
	r.validateURL("s3.role.sts_endpoint", s.STSEndpoint, "s3.access_key_id and .secret_access_key")
	switch {
	case s.ARN == "":
		r.at("s3.role.arn", "is missing: name the role, arn:aws:iam::ACCOUNT:role/NAME")
	case !roleForm.MatchString(s.ARN):
		r.at("s3.role.arn", "%q is no role: write arn:aws:iam::ACCOUNT:role/NAME", s.ARN)
	}
	if !sessionForm.MatchString(s.SessionName) {
		r.at("s3.role.session_name", "%q: a name of a session has 2 to 64 letters, digits and =,.@_-", s.SessionName)
	}
	if s.Duration < minRole || s.Duration > maxRole {
		r.at("s3.role.duration", "%s: AWS gives credentials for %s to %s", FormatDuration(s.Duration), FormatDuration(minRole), FormatDuration(maxRole))
	}
	if s.ExternalID != "" && s.WebIdentityTokenFile != "" {
		r.at("s3.role.external_id", "does not go with web_identity_token_file: leave one of them out")
	}
}

func (r *reader) validateS3Encryption(s *S3Encryption) {
	if _, set := r.from["s3.encryption.type"]; s.Type == "" && set {
		return // unknown, which is said already
	}
	if s.KeyID != "" && s.Type != "aws:kms" && s.Type != "aws:kms:dsse" {
		r.at("s3.encryption.key_id", "belongs to the types aws:kms and aws:kms:dsse")
	}
	if s.BucketKey && s.Type != "aws:kms" {
		r.at("s3.encryption.bucket_key", "belongs to the type aws:kms")
	}
}

func (r *reader) validateGCS(s *GCS) {
	r.validateURL("gcs.endpoint", s.Endpoint, "gcs.credentials_file")
	if s.Anonymous && s.CredentialsFile != "" {
		r.at("gcs", "anonymous and credentials_file exclude each other")
	}
}

func (r *reader) validateAzure(s *Azure) {
	r.validateURL("azure.endpoint", s.Endpoint, "azure.account_key or .sas_token")
	if strings.Contains(s.Endpoint, "?") {
		r.at("azure.endpoint", "has a query, which would be printed: use azure.sas_token")
	}
	given := 0
	for _, set := range []bool{s.AccountKey != "", s.SASToken != "", s.Anonymous} {
		if set {
			given++
		}
	}
	if given > 1 {
		r.at("azure", "account_key, sas_token and anonymous exclude each other")
	}
	if s.Account == "" && (s.AccountKey != "" || s.Endpoint != "") {
		r.at("azure.account", "is missing: account_key and endpoint belong to one")
	}
}

// validateURL checks an address of HTTP. A login in it would be printed.
func (r *reader) validateURL(setting, text, login string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r.at(setting, "is no URL: write http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		r.at(setting, "has a login in it, which would be printed: use %s", login)
	}
}

func (r *reader) validateCalendar(cfg *Config, checks Checks) {
	c := &cfg.Calendar
	if !granularityForm.MatchString(c.Granularity) {
		r.at("calendar.granularity", "%q is unknown: write day, hour, week, month, or minutes such as 5m or 15m", c.Granularity)
	} else if n := minutesOf(c.Granularity); n > 0 && 60%n != 0 {
		r.at("calendar.granularity", "%s does not divide the hour: write 1m, 2m, 3m, 4m, 5m, 6m, 10m, 12m, 15m, 20m, 30m or 60m", c.Granularity)
	}
	switch {
	case !cutoverForm.MatchString(c.Cutover):
		r.at("calendar.cutover", "%q is no time of day: write HH:MM from 00:00 to 23:59", c.Cutover)
	case c.Cutover != "00:00" && (c.Granularity == "hour" || minutesOf(c.Granularity) > 0):
		r.at("calendar.cutover", "moves the start of days, weeks and months, and the granularity is %s: leave it out", c.Granularity)
	}
	switch {
	case c.Timezone == "" && len(cfg.Tables) > 0:
		r.at("calendar.timezone", "is missing: name the IANA zone whose clock ends the day, e.g. Asia/Shanghai, or UTC; it can't be changed later")
	case c.Timezone != "" && checks.Zone != nil:
		if err := checks.Zone(c.Timezone); err != nil {
			r.at("calendar.timezone", "%v", err)
		}
	}
}

// minutesOf is the number of minutes of a granularity such as 15m, else 0.
func minutesOf(granularity string) int {
	number, minutes := strings.CutSuffix(granularity, "m")
	n, err := strconv.Atoi(number)
	if !minutes || err != nil {
		return 0
	}
	return n
}

func (r *reader) validateTable(t *Table, p string) {
	if t.Location == "" {
		r.at(p+".location", "is missing: write a path, file:///PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH")
	} else if why := badLocation(t.Location); why != "" {
		r.at(p+".location", "%s", why)
	}
	if t.Name != "" && !tableNameForm.MatchString(t.Name) {
		r.at(p+".name", "%q is no name: write letters, digits, _, - and . only", t.Name)
	}
	for i, topic := range t.Topics {
		if !topicForm.MatchString(topic) {
			r.at(fmt.Sprintf("%s.topics[%d]", p, i), "%q is no name of a topic", topic)
		}
		if slices.Index(t.Topics, topic) < i {
			r.at(fmt.Sprintf("%s.topics[%d]", p, i), "%s is listed twice", topic)
		}
	}
	if t.Source != "" {
		if db, name, ok := strings.Cut(t.Source, "."); !ok || db == "" || name == "" {
			r.at(p+".source", "%q is no table: write DATABASE.TABLE", t.Source)
		} else if _, err := path.Match(t.Source, ""); err != nil {
			r.at(p+".source", "%q is no pattern of tables: * is any text, ? a character, [0-9] one of some", t.Source)
		}
	}
	if t.Seal.Proof == "heartbeat" && t.Seal.Topic == "" {
		r.at(p+".seal.topic", "is missing: proof heartbeat needs the topic of the heartbeats")
	}
	if t.Seal.Topic != "" && t.Seal.Proof != "heartbeat" {
		r.at(p+".seal.topic", "is used with proof: heartbeat only")
	}
	if t.Seal.Manifest == "symlink" && t.Write.Mode != "copy-on-write" {
		r.at(p+".seal.manifest", "symlink needs write.mode: copy-on-write: who reads such manifests knows no deletion vectors, and would see deleted rows")
	}
	if topic, ok := strings.CutPrefix(t.DeadLetter.To, "topic:"); t.DeadLetter.To != "table" && (!ok || !topicForm.MatchString(topic)) {
		r.at(p+".dead_letter.to", "%q is unknown: write table or topic:NAME", t.DeadLetter.To)
	}
	for _, o := range t.Start.Offsets {
		switch {
		case o.Topic == "" && len(t.Topics) > 1:
			r.at(p+".start", "names no topic for partition %d, and the table has %d topics: write TOPIC/PARTITION=OFFSET", o.Partition, len(t.Topics))
		case o.Topic != "" && !slices.Contains(t.Topics, o.Topic):
			r.at(p+".start", "names the topic %s, which is none of the table's", o.Topic)
		}
	}
}

// badLocation says why a text is no location.
func badLocation(location string) string {
	scheme, rest, isURL := strings.Cut(location, "://")
	bucket, folder, _ := strings.Cut(rest, "/")
	form, login, section := "s3://BUCKET/PATH", "s3.access_key_id and .secret_access_key", "s3"
	switch scheme {
	case "gs":
		form, login, section = "gs://BUCKET/PATH", "gcs.credentials_file", "gcs"
	case "az":
		form, login, section = "az://CONTAINER/PATH", "azure.account_key or .sas_token", "azure"
	case "abfs", "abfss":
		form, login, section = "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH", "azure.account_key or .sas_token", "azure"
		container, account, named := strings.Cut(bucket, "@")
		if isURL && (!named || container == "" || account == "") {
			return "names no container and account: write " + form
		}
		bucket = container
		if strings.Contains(container, ":") {
			bucket = "@"
		}
	}
	switch {
	case !isURL:
		return ""
	case scheme == "file" && !strings.HasPrefix(rest, "/"):
		return "a file URL has three slashes: file:///PATH"
	case scheme == "file":
		return ""
	case scheme != "s3" && scheme != "s3a" && section == "s3":
		return fmt.Sprintf("the scheme %q is unknown: write a path, file:///PATH, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH", scheme)
	case bucket == "":
		return "names no bucket: write " + form
	case strings.Contains(bucket, "@"):
		return "has a login in it, which would be printed: use " + login
	case strings.Trim(folder, "/") == "":
		return "names a whole bucket: write " + form
	case strings.ContainsAny(rest, "?#"):
		return "has a query or fragment: settings of the storage belong into the section " + section
	}
	return ""
}

func (r *reader) validateColumns(t *Table, p string, checks Checks) {
	for _, list := range []struct {
		key   string
		names []string
	}{{"key", t.Key}, {"partition_by", t.PartitionBy}} {
		for i, name := range list.names {
			setting := fmt.Sprintf("%s.%s[%d]", p, list.key, i)
			r.validateColumnName(setting, name)
			if slices.Index(list.names, name) < i {
				r.at(setting, "%s is listed twice", name)
			}
		}
	}
	if column, ok := strings.CutPrefix(t.EventTime, "column:"); ok {
		r.validateColumnName(p+".event_time", column)
	} else if t.EventTime != "source" && t.EventTime != "kafka" {
		r.at(p+".event_time", "%q is unknown: write source, kafka or column:NAME", t.EventTime)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Columns)) {
		setting := p + ".columns." + name
		r.validateColumnName(setting, name)
		if checks.ColumnType != nil {
			if err := checks.ColumnType(t.Columns[name]); err != nil {
				r.at(setting, "%v", err)
			}
		}
	}
}

func (r *reader) validateColumnName(setting, name string) {
	if name == "" {
		r.at(setting, "is an empty column name")
	}
	if strings.HasPrefix(strings.ToLower(name), reserved) {
		r.at(setting, "%s: names with %s are the program's own", name, reserved)
	}
}

func (r *reader) validateTimes(t *Table, p string) {
	if t.Drift.Wait <= t.MaxClockSkew {
		r.at(p+".drift.wait", "%s must be more than max_clock_skew, %s: else a clock within its bounds could seal a day before its end",
			FormatDuration(t.Drift.Wait), FormatDuration(t.MaxClockSkew))
	}
	b := t.Batch
	if b.Interval <= 0 {
		r.at(p+".batch.interval", "must be more than 0")
	}
	if b.MaxInterval < b.Interval {
		r.at(p+".batch.max_interval", "%s is less than interval, %s", FormatDuration(b.MaxInterval), FormatDuration(b.Interval))
	}
	if b.Rows < 1 {
		r.at(p+".batch.rows", "%d: a batch has at least one row", b.Rows)
	}
	if b.Bytes < 1 {
		r.at(p+".batch.bytes", "must be more than 0")
	}
	if t.MaxRecord < 1 {
		r.at(p+".max_record", "must be more than 0")
	}
}

// validateRetention: labels of minutes fill the map of savepoints, which is in
// every checkpoint.
func (r *reader) validateRetention(t *Table, p, granularity string) {
	minutes := minutesOf(granularity)
	if minutes == 0 {
		return
	}
	s := t.Retention.Savepoints
	last := s.Keep.Days()
	if s.Keep.Unit == "label" {
		last = float64(s.Keep.N) * float64(minutes) / (24 * 60)
	}
	kept := last * 24 * 60 / float64(minutes)
	for _, stage := range s.Then {
		s.Forever = s.Forever || stage.Forever
		kept += (stage.Until.Days() - last) / map[string]float64{"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}[stage.Ends]
		last = stage.Until.Days()
	}
	switch {
	case s.Forever:
		r.at(p+".retention.savepoints", "is forever, and labels of %s need an end: write e.g. keep 7 days", granularity)
	case kept > maxSavepoints:
		r.at(p+".retention.savepoints", "%s keeps %.0f labels of %s, and a checkpoint may list %d: keep less", t.Retention.Savepoints, kept, granularity, maxSavepoints)
	}
}

// validateMaintain: a class alone says not when, an age alone not where to.
func (r *reader) validateMaintain(t *Table, p string) {
	switch tier := t.Retention.Tier; {
	case tier.After < 0:
		r.at(p+".retention.tier.after", "must be more than 0")
	case tier.Class != "" && tier.After == 0:
		r.at(p+".retention.tier", "needs after: how long ago the labels of savepoints ended whose files go to %s, such as 30d", tier.Class)
	case tier.Class == "" && tier.After > 0:
		r.at(p+".retention.tier", "needs class: the storage class to move files to, such as STANDARD_IA")
	}
	if t.Maintain.ExtraFiles < 0 {
		r.at(p+".maintain.extra_files", "must not be below 0")
	}
	if t.Maintain.PinnedBytes < 0 {
		r.at(p+".maintain.pinned_bytes", "must not be below 0")
	}
}

// validateTogether checks tables against each other.
func (r *reader) validateTogether(tables []Table) {
	names, locations := map[string]int{}, map[string]int{}
	type stream struct{ topic, source string }
	topics := map[stream]int{}
	users := map[string][]int{}
	for i := range tables {
		t, p := &tables[i], fmt.Sprintf("tables[%d]", i)
		if first, taken := names[t.Name]; taken && t.Name != "" {
			r.at(p+".name", "%s is the name of tables[%d] too", t.Name, first)
		}
		names[t.Name] = i
		place := cleanLocation(t.Location)
		if first, taken := locations[place]; taken && t.Location != "" {
			r.at(p+".location", "%s is the location of tables[%d] too", t.Location, first)
		}
		locations[place] = i
		for _, topic := range t.Topics {
			if first, taken := topics[stream{topic, t.Source}]; taken && first != i && t.Source != "" {
				r.at(p+".source", "tables[%d] takes %s from %s too", first, t.Source, topic)
			}
			topics[stream{topic, t.Source}] = i
			if !slices.Contains(users[topic], i) {
				users[topic] = append(users[topic], i)
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(users)) {
		for _, i := range users[topic] {
			if len(users[topic]) > 1 && tables[i].Source == "" {
				r.at(fmt.Sprintf("tables[%d].topics", i), "%s is read by several tables: set source on each", topic)
			}
		}
	}
}

// cleanLocation is a location in one spelling.
func cleanLocation(location string) string {
	scheme, rest, isURL := strings.Cut(location, "://")
	switch {
	case !isURL:
		return path.Clean(location)
	case scheme == "file":
		return path.Clean(rest)
	}
	if scheme == "s3a" {
		scheme = "s3"
	}
	return scheme + "://" + strings.TrimRight(rest, "/")
}
