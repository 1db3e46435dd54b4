package config

import "time"

// The tags of a field: yaml is its key, default its default as one would write it,
// absent what holds where there is no such text, oneof the words that it may be,
// range its least and its greatest value (1..64, 1s..), since the first release
// that knows it (the first of all where it is missing). The comment of a key is its
// line in docs/reference/configuration.md; links in it are relative to docs/.

// Config is the whole configuration, every setting resolved.
type Config struct {
	Kafka          Kafka          `yaml:"kafka"`
	SchemaRegistry SchemaRegistry `yaml:"schema_registry"`
	S3             S3             `yaml:"s3"`
	GCS            GCS            `yaml:"gcs"`
	Azure          Azure          `yaml:"azure"`
	MySQL          MySQL          `yaml:"mysql"`
	Transform      Transform      `yaml:"transform"`
	// Capture is nil where the section is absent.
	Capture  *Capture `yaml:"capture"`
	Calendar Calendar `yaml:"calendar"`
	HTTP     HTTP     `yaml:"http"`
	Log      Log      `yaml:"log"`
	Process  Process  `yaml:"process"`
	ScaleOut ScaleOut `yaml:"scale_out"`
	// Tracing is nil where the section is absent: nothing is traced.
	Tracing *Tracing `yaml:"tracing"`
	// Notify are the sinks that are told of events; their names differ.
	Notify []Notify `yaml:"-"`
	// Tables have names that differ and locations that differ.
	Tables []Table `yaml:"-"`
}

// Kafka says how to reach the brokers.
type Kafka struct {
	// Addresses to begin with, `HOST:PORT`; the brokers name the others. Empty where topics are read from files.
	Brokers []string `yaml:"brokers"`
	// The client's name at the brokers.
	ClientID string `yaml:"client_id" default:"gscd"`
	// Consumer group to which offsets are published, for lag tools; never read back.
	Group string `yaml:"group"`
	// Bound of what all tables together have fetched and not yet taken.
	FetchBytes Size `yaml:"fetch_bytes" default:"64MiB" range:"1MiB.."`
	// TLS is nil where the section is absent; an empty section is TLS with the
	// system's authorities.
	TLS *TLS `yaml:"tls"`
	// SASL is nil where the section is absent.
	SASL *SASL `yaml:"sasl"`
}

// TLS names files in PEM form.
type TLS struct {
	// PEM file of the authorities. An empty section `tls: {}` is TLS with the system's.
	CAFile string `yaml:"ca_file" absent:"the system's"`
	// PEM file of the client's certificate; with `key_file`.
	CertFile string `yaml:"cert_file"`
	// PEM file of the key of the client's certificate; with `cert_file`.
	KeyFile string `yaml:"key_file"`
	// Name to check the certificate against.
	ServerName string `yaml:"server_name" absent:"the broker's host"`
}

// SASL is the login at the brokers. Its files are read at each login.
type SASL struct {
	// How gscd proves who it is.
	Mechanism string `yaml:"mechanism" oneof:"plain scram-sha-256 scram-sha-512 oauthbearer aws-msk-iam"`
	// Who logs in; with plain and scram.
	Username string `yaml:"username"`
	// The password; with plain and scram. Best in a file.
	Password Secret `yaml:"password"`
	// File that holds the password, instead of `password`.
	PasswordFile string `yaml:"password_file"`
	// File that holds the token of oauthbearer.
	TokenFile string `yaml:"token_file"`
	// Pairs that go with the token, for brokers that ask for them.
	Extensions map[string]string `yaml:"extensions"`
	// Region of the MSK cluster, with aws-msk-iam: each login is signed with the credentials of the AWS environment.
	Region string `yaml:"region"`
	// Role that is taken with those credentials, with aws-msk-iam.
	RoleARN string `yaml:"role_arn"`
	// What the role's trust policy asks for.
	ExternalID string `yaml:"external_id"`
}

// String leaves out the password: fmt prints what a pointer points to without asking the
// fields, where a verb does not fit it.
func (s SASL) String() string { return s.Mechanism + ":" + s.Username }

// GoString is String.
func (s SASL) GoString() string { return s.String() }

// Transform is what the transforms of all tables share.
type Transform struct {
	// The key of the hashes of `hash_columns`, 16 bytes or more; best as `GSCD_TRANSFORM_HASH_SECRET_FILE`.
	HashSecret Secret `yaml:"hash_secret"`
}

// SchemaRegistry is where Avro schemas come from.
type SchemaRegistry struct {
	// `http://HOST:PORT` or `https://HOST:PORT`, with its path; several addresses of one registry with commas
	// between, asked in turn.
	URL string `yaml:"url"`
	// Login at the registry; with `password`.
	Username string `yaml:"username"`
	// Password of the login; best as `GSCD_SCHEMA_REGISTRY_PASSWORD_FILE`.
	Password Secret `yaml:"password"`
	// A bearer token, in place of a login.
	Token Secret `yaml:"token"`
	// PEM file of the authorities that sign the registry's certificate.
	CAFile string `yaml:"ca_file" absent:"the system's"`
	// PEM file of a client's certificate, read at each connection; with `key_file`.
	CertFile string `yaml:"cert_file"`
	// PEM file of its key, read at each connection; with `cert_file`.
	KeyFile string `yaml:"key_file"`
}

// URLs gives the addresses: all of them of Confluent's API, or all of Apicurio's own.
func (s *SchemaRegistry) URLs() []string { return splitList(s.URL) }

// S3 overrides the AWS defaults (environment, profile, instance role).
type S3 struct {
	// URL of another storage: `https://HOST:PORT`.
	Endpoint string `yaml:"endpoint" absent:"Amazon's"`
	// Region of the buckets.
	Region string `yaml:"region" absent:"AWS_REGION, the profile's; with an endpoint us-east-1"`
	// The bucket stands in the path, not in the host name.
	PathStyle bool `yaml:"path_style"`
	// Key to log in with; with `secret_access_key`.
	AccessKeyID string `yaml:"access_key_id" absent:"the AWS environment's"`
	// Its secret; with `access_key_id`.
	SecretAccessKey Secret `yaml:"secret_access_key" absent:"the AWS environment's"`
	// The token of temporary credentials.
	SessionToken Secret `yaml:"session_token"`
	// PEM file of the authorities that sign the storage's certificate.
	CAFile string `yaml:"ca_file" absent:"AWS_CA_BUNDLE, else the system's"`
	// Amazon's endpoints with validated cryptography.
	FIPS bool `yaml:"fips"`
	// Amazon's endpoints that have IPv6 too.
	DualStack bool `yaml:"dualstack"`
	// A role of AWS whose temporary credentials are used: see [roles](s3.md#roles).
	Role *S3Role `yaml:"role"`
	// How the storage encrypts what is written: see [encryption](s3.md#encryption).
	Encryption S3Encryption `yaml:"encryption"`
	// `conditional-put`, or `dynamodb`: commits go through a DynamoDB table.
	LogStore string `yaml:"log_store" default:"conditional-put" oneof:"conditional-put dynamodb"`
	// Name of the DynamoDB table, with `log_store: dynamodb`.
	DynamoDBTable string `yaml:"dynamodb_table" default:"delta_log"`
	// Region of the DynamoDB table.
	DynamoDBRegion string `yaml:"dynamodb_region" absent:"that of s3"`
	// URL of another DynamoDB.
	DynamoDBEndpoint string `yaml:"dynamodb_endpoint" absent:"Amazon's"`
	// `s3a` or `s3`: how the other writers begin the address of a table.
	DynamoDBScheme string `yaml:"dynamodb_scheme" default:"s3a" oneof:"s3a s3"`
}

// S3Role is a role of AWS whose temporary credentials are used.
type S3Role struct {
	// The role: `arn:aws:iam::ACCOUNT:role/NAME`.
	ARN string `yaml:"arn"`
	// What the role's trust policy asks for.
	ExternalID string `yaml:"external_id"`
	// Name of the session in the logs of AWS.
	SessionName string `yaml:"session_name" default:"gscd"`
	// How long credentials are asked for, `15m` to `12h`.
	Duration time.Duration `yaml:"duration" default:"1h"`
	// File with the token by which the role is taken, read at each renewal; without it: the credentials of `s3`.
	WebIdentityTokenFile string `yaml:"web_identity_token_file"`
	// URL of another STS.
	STSEndpoint string `yaml:"sts_endpoint" absent:"Amazon's"`
}

// S3Encryption is what the storage is asked to encrypt objects by; without Type the bucket's default.
type S3Encryption struct {
	// `AES256` (SSE-S3), `aws:kms` (SSE-KMS) or `aws:kms:dsse`.
	Type string `yaml:"type" absent:"the bucket's default" oneof:"AES256 aws:kms aws:kms:dsse"`
	// Id, ARN or alias of the KMS key.
	KeyID string `yaml:"key_id" absent:"the account's key for S3"`
	// Spares requests to KMS, with `aws:kms`.
	BucketKey bool `yaml:"bucket_key"`
}

// GCS overrides the application default credentials of Google.
type GCS struct {
	// URL of another endpoint of the JSON API: `https://HOST:PORT`.
	Endpoint string `yaml:"endpoint" absent:"Google's"`
	// JSON file of a service account's key or a workload identity.
	CredentialsFile string `yaml:"credentials_file" absent:"the application default credentials"`
	// No credentials: for emulators.
	Anonymous bool `yaml:"anonymous"`
}

// Azure says how az:// and abfss:// addresses are reached; without key and token
// the login is the environment's.
type Azure struct {
	// Name of the storage account.
	Account string `yaml:"account" absent:"that of an abfss:// address"`
	// URL of an account elsewhere, as `https://HOST/ACCOUNT`.
	Endpoint string `yaml:"endpoint" absent:"https://ACCOUNT.blob.core.windows.net"`
	// One of the account's keys.
	AccountKey Secret `yaml:"account_key" absent:"the login of the environment"`
	// A shared access signature, instead of a key.
	SASToken Secret `yaml:"sas_token" absent:"the login of the environment"`
	// No login: for emulators.
	Anonymous bool `yaml:"anonymous"`
}

// MySQL says how the servers of mysql:// addresses are reached.
type MySQL struct {
	// Password of the user in the `mysql://` addresses of `gscd load` and `gscd capture`; best as
	// `GSCD_MYSQL_PASSWORD_FILE`.
	Password Secret `yaml:"password"`
	// `require` checks the server's certificate, `skip-verify` does not.
	TLS string `yaml:"tls" default:"none" oneof:"none require skip-verify"`
	// PEM file of the authorities of that certificate; asks for TLS.
	CAFile string `yaml:"ca_file" absent:"the system's"`
	// Client certificate in PEM form, with `key_file`; asks for TLS.
	CertFile string `yaml:"cert_file"`
	// Its key, with `cert_file`.
	KeyFile string `yaml:"key_file"`
}

// Capture says what gscd capture reads and writes. Password and TLS of its servers
// are those of the section mysql.
type Capture struct {
	// The source's logical name: topics begin with it, records carry it. Never changed later.
	Name string `yaml:"name"`
	// Addresses `mysql://USER@HOST:PORT` of one server, or of a primary and those that may take its place; the
	// first that answers is read.
	Servers []string `yaml:"servers"`
	// Our number among the replicas of the servers: one that nobody else has.
	ServerID int `yaml:"server_id" range:"1..4294967295"`
	// Patterns `DATABASE.TABLE` with `*` and `?`: `[shop.*, crm.customer]`.
	Tables []string `yaml:"tables"`
	// Patterns of tables to leave out all the same.
	Exclude []string `yaml:"exclude"`
	// The topic of a table. Characters that Kafka refuses become `_`.
	Topic string `yaml:"topic" default:"{name}.{database}.{table}"`
	// Compacted topic of one partition that keeps the position, the load's progress and the schema history; made
	// where it is missing.
	StateTopic string `yaml:"state_topic" absent:"gscd-capture-NAME"`
	// Partitions of topics that are made.
	Partitions int `yaml:"partitions" default:"4" range:"1..10000"`
	// Copies of topics that are made; 0 is the brokers' default.
	Replication int `yaml:"replication" default:"0" range:"0..100"`
	// Map of Kafka's settings for topics that are made: `{retention.ms: "604800000"}`.
	TopicSettings map[string]string `yaml:"topic_settings"`
	// Form of the records: `gscd`, its own; `debezium`, Debezium's JSON; `debezium-schemas`, the same with the
	// schema of the values.
	Form string `yaml:"form" default:"gscd" oneof:"gscd debezium debezium-schemas"`
	// `transactions`: each change is there once, whatever crashes. `idempotent`: no transactions, and changes may
	// come again after a crash; `gscd ingest` knows them by their position.
	Delivery string      `yaml:"delivery" default:"transactions" oneof:"transactions idempotent"`
	Load     CaptureLoad `yaml:"load"`
	// How often each partition is told up to when the server was read.
	Heartbeat time.Duration `yaml:"heartbeat" default:"10s" range:"1s.."`
	// Batch closes at whichever comes first, with the next end of a transaction.
	Batch CaptureBatch `yaml:"batch"`
	// Bytes of the largest record; topics are made for it, and ones that take less are refused.
	MaxMessage Size `yaml:"max_message" default:"1000012" range:"64KiB..1GiB"`
}

// CaptureLoad is the initial read of the tables.
type CaptureLoad struct {
	// `initial`: rows that are there are read first. `never`: changes from now on alone.
	Mode string `yaml:"mode" default:"initial" oneof:"initial never"`
	// Connections that read.
	Parallel int `yaml:"parallel" default:"4" range:"1..64"`
	// Rows of a table that a connection takes at a time.
	ChunkRows int `yaml:"chunk_rows" default:"50000" range:"100.."`
	// `auto`: where all connections can't see one moment otherwise, `FLUSH TABLES WITH READ LOCK` for some
	// milliseconds. `never`: MariaDB with one connection then, MySQL not at all.
	Lock string `yaml:"lock" default:"auto" oneof:"auto never"`
}

// CaptureBatch is what is written together.
type CaptureBatch struct {
	// How long changes may wait to be written together.
	Interval time.Duration `yaml:"interval" default:"200ms" range:"1ms..1m"`
	// Bytes of changes that are written together; a larger transaction is written in parts.
	Bytes Size `yaml:"bytes" default:"8MiB" range:"64KiB.."`
}

// Calendar is the business calendar of all tables.
type Calendar struct {
	// `day`, `hour`, `week`, `month`, or minutes that divide the hour: `1m`, `5m`, `15m`, `30m`, ….
	Granularity string `yaml:"granularity" default:"day"`
	// IANA zone whose clock ends the day: `Asia/Shanghai`, `Europe/Berlin`, `UTC`.
	Timezone string `yaml:"timezone" absent:"none, must be set"`
	// Time of day, `HH:MM`, at which a day (a week on its Monday, a month on its first day) begins.
	Cutover string `yaml:"cutover" default:"00:00"`
}

// HTTP is where an ingester tells how it stands.
type HTTP struct {
	// `HOST:PORT` to answer `/healthz`, `/readyz`, `/metrics`, `/status` and the [status page](status-page.md) at; a
	// port alone is one of 127.0.0.1. Without it nothing is answered. `gscd ingest --http` sets it too.
	Address string `yaml:"address"`
	// TLS, from 1.2 on, for `address` and `pprof`; absent: none. The files are read again when they change.
	TLS *HTTPTLS `yaml:"tls"`
	// What a request has to show: `Authorization: Bearer …`, or as the password of a browser's login. All pages ask for
	// it but `/healthz` and `/readyz`. At least 16 characters; a new value is taken at SIGHUP. See [who may
	// ask](operations.md#who-may-ask).
	Token Secret `yaml:"token"`
	// `HOST:PORT` to answer the [profiles](operations.md#profiles) of Go's runtime at; a port alone is one of
	// 127.0.0.1. Absent: there are none.
	Pprof string `yaml:"pprof"`
}

// HTTPTLS names files in PEM form, which are read again when they change.
type HTTPTLS struct {
	// PEM file of the server's certificate, with those between it and its authority.
	CertFile string `yaml:"cert_file"`
	// PEM file of its key.
	KeyFile string `yaml:"key_file"`
	// PEM file of authorities: who asks for more than `/healthz` and `/readyz` must show a certificate of one of them.
	ClientCAFile string `yaml:"client_ca_file"`
}

// Log is what gscd ingest logs.
type Log struct {
	// Least level that `gscd ingest` logs; `--log-level` goes before it. A new value is taken at SIGHUP.
	Level string `yaml:"level" default:"info" oneof:"debug info warn error"`
}

// Tracing is where spans of batches are sent.
type Tracing struct {
	// Address of an OTLP collector over HTTP: `http://HOST:4318`, or with the path of its traces.
	Endpoint string `yaml:"endpoint"`
	// File with a header a line, `NAME: VALUE`, that is sent along; a login among them.
	HeadersFile string `yaml:"headers_file"`
	// PEM file of the authorities that sign the collector's certificate.
	CAFile string `yaml:"ca_file"`
	// Share of the batches that are traced.
	Sample Fraction `yaml:"sample" default:"100%"`
}

// Process bounds what all tables of a process take together. What is 0 depends
// on the machine.
type Process struct {
	// Bytes of records in uncommitted batches of all tables, those being written too. Past it the table with the
	// largest batch commits early. A record in a batch takes about three times its bytes; one of more than 64 KiB
	// counts twice, and a new row with 32 bytes a column beside. Of what a container may use give `GOMEMLIMIT`
	// three quarters ([hard inputs](benchmarks.md#hard-inputs)). Between two runs of Go's garbage collector the
	// heap may grow by a quarter of this, unless `GOGC` is set.
	BatchMemory Size `yaml:"batch_memory" absent:"a quarter of GOMEMLIMIT or of the cgroup's limit, whichever is less; without both 1GiB" range:"1MiB.."`
	// How many tables seal, write a checkpoint or build an index at once; the others wait in the order in which
	// they came.
	HeavyTasks int `yaml:"heavy_tasks" absent:"the number of CPUs, at least 2" range:"0.."`
	// Folder on local disk in which the key indexes of tables in object stores are kept, so that a start does not
	// fetch all keys again ([what the files are](on-disk.md#the-saved-key-index)). Tables on a file system need
	// none. It may be lost, or deleted, at any time.
	CacheDir string `yaml:"cache_dir" absent:"none"`
	// From one round of `gscd maintain` to the next; `--interval` sets it too.
	MaintainInterval time.Duration `yaml:"maintain_interval" default:"1h" range:"1s.."`
}

// ScaleOut shares the tables out among several processes of one configuration.
type ScaleOut struct {
	// Kafka group whose members share the tables out among them; without it all tables run in each process. Another than `kafka.group`. `gscd ingest --scale-out-group` sets it too.
	Group string `yaml:"group"`
	// Name of this process in the group: 1 to 249 letters, digits, dots, hyphens and underscores. It stays through a restart; who joins under the name of a process that is there replaces it.
	Member string `yaml:"member" absent:"$POD_NAME, else the host's name"`
	// Silence after which the others take a process's tables, and so within which it can come back and find its own. Brokers take no less than 6 s where `group.min.session.timeout.ms` is not set.
	SessionTimeout time.Duration `yaml:"session_timeout" default:"10s" range:"1s..30m"`
	// `http://HOST:PORT` or `https://HOST:PORT` at which the others ask this process how its tables stand.
	Advertise string `yaml:"advertise" absent:"made of http.address, with the host's name where that is 0.0.0.0"`
	// PEM file of the authorities that sign the certificates behind `https://` addresses of the others.
	CAFile string `yaml:"ca_file" absent:"the system's"`
}

// Table is one table with all its settings: its own, else those of the section
// defaults, else the program's.
type Table struct {
	// How commands call it (`--table`).
	Name string `yaml:"name" absent:"last part of the location"`
	// A path, `file:///…`, `s3://BUCKET/PATH` (see [S3](s3.md)), `gs://BUCKET/PATH`, `az://CONTAINER/PATH`,
	// `abfss://…` (see [stores](stores.md)).
	Location string `yaml:"location" absent:"must be set"`
	// Topics that carry the table's changes.
	Topics []string `yaml:"topics"`
	// `database.table`: takes one table out of topics that carry several; a pattern (`shop.orders_*`,
	// `shop_[0-9].orders`) takes many, see [shards](transforms.md#shards).
	Source   string `yaml:"source"`
	Settings `yaml:",inline"`
}

// Settings is what the section defaults may set.
type Settings struct {
	// `auto`, or one of [the formats](formats.md). auto: the first record with a change decides, the table
	// remembers it.
	Format   string   `yaml:"format" default:"auto"`
	Debezium Debezium `yaml:"debezium"`
	Canal    Canal    `yaml:"canal"`
	DMS      DMS      `yaml:"aws_dms"`
	OGG      OGG      `yaml:"ogg"`
	Avro     Avro     `yaml:"avro"`
	// List of key columns.
	Key []string `yaml:"key" absent:"what the records name"`
	// `source`; `kafka`, the broker timestamp; `column:NAME`.
	EventTime string `yaml:"event_time" default:"source"`
	Drift     Drift  `yaml:"drift"`
	// An event time later than the broker timestamp and this is in the future.
	MaxClockSkew time.Duration `yaml:"max_clock_skew" default:"5m"`
	Write        Write         `yaml:"write"`
	Batch        Batch         `yaml:"batch"`
	// A change of a sealed label: `fold` into the open one, `dead_letter`, `fail`.
	Late string `yaml:"late" default:"fold" oneof:"fold dead_letter fail"`
	// An event time in the future: `dead_letter`, or `clamp` to the broker timestamp.
	Future string `yaml:"future" default:"dead_letter" oneof:"dead_letter clamp"`
	// What a TRUNCATE of the source does: deletes all rows, nothing, or stops the table.
	Truncate string `yaml:"truncate" default:"apply" oneof:"apply ignore fail"`
	// `true`: Delta's change data feed, for a new table and one that is there; see [change data](change-data.md).
	// `false` switches nothing off.
	ChangeData bool `yaml:"change_data"`
	// `backup`: a copy of each savepoint's log files beside the log; `lock`: that, and a writer feature in the
	// table's protocol, for which [other engines](compatibility.md#locked-tables) read the table and refuse to
	// write to it and to vacuum it; `none`. A table that is there follows a value that is set, at the start of the
	// ingester; without one it keeps what it has.
	Protect string `yaml:"protect" oneof:"backup none lock" absent:"backup for days and longer, else none"`
	// ProtectChosen: protect was set, not left to its default. Only then a table that
	// is there is made so.
	ProtectChosen bool `yaml:"-"`
	// List of columns; decided when the table is made: another value later is an error.
	PartitionBy []string `yaml:"partition_by"`
	// Map of column to Delta or MySQL type, see [types](types.md).
	Columns map[string]string `yaml:"columns" absent:"what the records say"`
	// List of columns to take.
	IncludeColumns []string `yaml:"include_columns" absent:"all"`
	// List of columns to leave out.
	ExcludeColumns []string `yaml:"exclude_columns"`
	// List of columns whose keyed hash (HMAC-SHA-256) is taken in place of the value.
	HashColumns []string `yaml:"hash_columns"`
	// Map of column to the text that stands in place of its values, or to a section `{method: …}`:
	// `constant` with `text`, `hmac`, `sha256`, `null`, `keep_last` with `keep`.
	Mask Masks `yaml:"mask"`
	// Map of column to its name in the table.
	Rename map[string]string `yaml:"rename"`
	// Map of column to the type that it has in the table.
	Cast map[string]string `yaml:"cast"`
	// Condition of the rows to take, in the language of `--where`.
	RowFilter string `yaml:"row_filter"`
	// How records are stored that wait for their day, or are dead letters: `encrypt`, under
	// `transform.hash_secret`, or `plain`, as they came: see [transforms](transforms.md#what-is-hidden-and-where).
	RawRecords string `yaml:"raw_records" absent:"encrypt with hash_columns or mask, else plain" oneof:"encrypt plain"`
	// ShardColumn names the shard of each row, in the key; nil for none.
	ShardColumn *ShardColumn `yaml:"shard_column"`
	// Topic of a Debezium connector's DDL (its `topic.prefix`): the types of records without schemas, see
	// [types](types.md#from-the-ddl-topic).
	SchemaTopic string `yaml:"schema_topic"`
	// Where a new table begins: `earliest`, `latest`, a time with offset, offsets `"0=120,1=98"`. Others than
	// earliest mark labels incomplete.
	Start Start `yaml:"start" default:"earliest"`
	// `fail`, `continue`: that label and later ones are incomplete.
	OnLostOffsets string `yaml:"on_lost_offsets" default:"fail" oneof:"fail continue"`
	// A second full load: `replace`: rows that it does not bring go; `merge`.
	Reload string `yaml:"reload" default:"replace" oneof:"replace merge"`
	// Part of all rows that a repeated load may take away; else it is merged, and the labels are incomplete.
	MaxDeleteFraction Fraction `yaml:"max_delete_fraction" default:"20%" range:"0%..100%"`
	// A record without a value: `ignore`, `delete` its key. [Flattened records](formats.md#flattened-debezium)
	// without `__deleted` need it set.
	Tombstones string `yaml:"tombstones" default:"ignore" oneof:"ignore delete"`
	// TombstonesChosen: tombstones was set, not left to its default. Some
	// flattened topics can't be read without a choice.
	TombstonesChosen bool `yaml:"-"`
	// `upsert`, `append`: a table without a key, of which each insert and read is a row; updates and deletes are
	// dead letters.
	Mode string `yaml:"mode" default:"upsert" oneof:"upsert append"`
	// An update without all columns: `merge` onto the row, `dead_letter`, `fail`.
	PartialImage string `yaml:"partial_image" default:"merge" oneof:"merge dead_letter fail"`
	// A NULL in a key column: a `value` like others, `dead_letter`, `fail`.
	NullKey string `yaml:"null_key" default:"value" oneof:"value dead_letter fail"`
	// What becomes of a column that the table does not have.
	NewColumn string `yaml:"new_column" default:"add" oneof:"add ignore fail"`
	// `keep`. `fail` is not checked in this version.
	MissingColumn string `yaml:"missing_column" default:"keep" oneof:"keep fail"`
	// `follow`, `keep_both`, `fail`: of columns that the source renames or drops, see [DDL](ddl.md).
	DDL string `yaml:"ddl" default:"follow" oneof:"follow keep_both fail"`
	// A value that does not fit its column: `dead_letter`, `null`, `fail`.
	BadValue string `yaml:"bad_value" default:"dead_letter" oneof:"dead_letter null fail"`
	// A compacted topic: `refuse`, `allow`, which marks the labels.
	Compacted  string     `yaml:"compacted" default:"refuse" oneof:"refuse allow"`
	DeadLetter DeadLetter `yaml:"dead_letter"`
	// A larger record is a dead letter.
	MaxRecord Size      `yaml:"max_record" default:"64MiB" range:"1B.."`
	Seal      Seal      `yaml:"seal"`
	Retention Retention `yaml:"retention"`
	Maintain  Maintain  `yaml:"maintain"`
}

// ShardColumn is a column of the table that the source does not have.
type ShardColumn struct {
	// A column of the key that names the [shard](transforms.md#shards) of each row.
	Name string `yaml:"name"`
	// What the shard is called by: `topic`, `database`, `table` or `server`.
	From string `yaml:"from" default:"topic"`
}

// Debezium says how records without schemas encode values; "" is unknown.
type Debezium struct {
	// How records without schemas write decimals: `base64` (`decimal.handling.mode: precise`) or `text`
	// (`string`).
	Decimals string `yaml:"decimals" oneof:"base64 text" absent:"base64 with schema_topic, else text"`
	// `long`: negative integers of decimal(20,0) columns have wrapped.
	Unsigned string `yaml:"unsigned" oneof:"long"`
	// `base64`, which is what is read anyway.
	Binary string `yaml:"binary" oneof:"base64"`
}

// Canal says how Canal was set up.
type Canal struct {
	// IANA zone of Canal's process, in which it writes `timestamp` columns.
	Timezone string `yaml:"timezone"`
}

// DMS says how a task of AWS DMS was set up; "" is its default.
type DMS struct {
	// Name of the object with the row before an update.
	BeforeImage string `yaml:"before_image" absent:"before-image"`
	// Beginning of the columns with the values before an update.
	BeforePrefix string `yaml:"before_prefix" absent:"BI_"`
	// `none`: no update changes a key, see [AWS DMS](formats.md#aws-dms).
	KeyChanges string `yaml:"key_changes" oneof:"none"`
}

// OGG says how Oracle GoldenGate was set up.
type OGG struct {
	// IANA zone of GoldenGate's `op_ts`.
	Timezone string `yaml:"timezone" absent:"UTC"`
}

// Avro says how records name their schemas.
type Avro struct {
	// `auto`, `confluent`, `apicurio`, `headers`: where a record has [the id of its
	// schema](formats.md#the-id-of-the-schema).
	Frame string `yaml:"frame" default:"auto" oneof:"auto confluent apicurio headers"`
	// `content`, `global`: what the ids count.
	ID string `yaml:"id" oneof:"content global" absent:"by the frame"`
}

// Drift is how long the changes of a label may take to arrive.
type Drift struct {
	// Event time that every partition must show past the label's end; more than `max_clock_skew`.
	Wait time.Duration `yaml:"wait" default:"10m"`
	// Clock time past `wait`, after which a partition that is read to its end agrees too.
	Idle time.Duration `yaml:"idle" default:"5m"`
}

// Write is how rows are replaced.
type Write struct {
	// `merge-on-read`: deletion vectors; `copy-on-write`: rewrites files, for engines that do not read vectors.
	// Decided when the table is made: another value later is an error.
	Mode string `yaml:"mode" default:"merge-on-read" oneof:"merge-on-read copy-on-write"`
}

// Batch closes at whichever of Interval, Rows and Bytes comes first.
type Batch struct {
	// A batch is committed after this time, or before: whichever of `interval`, `rows` and `bytes` comes first.
	Interval time.Duration `yaml:"interval" default:"60s" range:"1ns.."`
	// Records of a batch.
	Rows int `yaml:"rows" default:"200000" range:"1.."`
	// Bytes of records that the batch being taken and the one being written hold together; each has half.
	Bytes Size `yaml:"bytes" default:"256MiB" range:"1B.."`
	// A batch waits longer than `interval`, up to this, while more than `batch.rows` records wait to be read, or
	// while it would write more than three times its own size and has fewer than 10,000 rows or a 400th of the
	// table's.
	MaxInterval time.Duration `yaml:"max_interval" default:"10m"`
}

// DeadLetter is where records go that can't be applied.
type DeadLetter struct {
	// Part of the last 10,000 records that stops the table, from 100 dead letters on; 0: the first one.
	Limit Fraction `yaml:"limit" default:"1%" range:"0%..100%"`
	// `topic:NAME`: the dead letters are written to that topic too, with headers `gscd-topic`, `gscd-partition`,
	// `gscd-offset`, `gscd-reason`, `gscd-detail`, `gscd-column`, `gscd-label` behind their own (and `gscd-length`
	// where the record is cut off). The topic must exist; a record that is too large for it is written without its
	// value, which `gscd-value-left-out` says.
	To string `yaml:"to" default:"table"`
}

// Seal says what proof a seal needs.
type Seal struct {
	// `none`; `any`: one watermark past the label; `heartbeat`: the same, and a heartbeat topic counts.
	Proof string `yaml:"proof" default:"none" oneof:"none any heartbeat"`
	// The heartbeat topic, with `proof: heartbeat`.
	Topic string `yaml:"topic"`
	// Records the [checksum of the rows](on-disk.md#content-checksums) right behind each seal; else `gscd
	// maintain` does. It reads the rows that changed since the day before.
	Checksum bool `yaml:"checksum"`
	// What each seal writes for engines that do not read the log: `files`: a [list of the
	// files](on-disk.md#lists-of-files) of the sealed version; `symlink`: that, and manifests for
	// `SymlinkTextInputFormat`, with `write.mode: copy-on-write` only.
	Manifest string `yaml:"manifest" default:"none" oneof:"none files symlink"`
}

// Retention says what is kept for how long.
type Retention struct {
	// How long versions without a savepoint stay readable; `gscd vacuum` goes by it.
	History time.Duration `yaml:"history" default:"24h"`
	// Which savepoints `gscd maintain` keeps: `keep 90 days, then month ends for 7y`; see
	// [retention](retention.md#how-long-savepoints-are-kept).
	Savepoints Policy `yaml:"savepoints" default:"forever"`
	// How long a rolled-back savepoint stays pinned.
	RolledBack time.Duration `yaml:"rolled_back" default:"30d"`
	Tier       Tier          `yaml:"tier"`
}

// Tier is where files go that only old savepoints need; the zero value is nowhere.
type Tier struct {
	// How long ago the label of every savepoint that needs a file ended, for `gscd maintain` to move it: `30d`.
	After time.Duration `yaml:"after"`
	// The storage class of S3 that it is moved to: `STANDARD_IA`, `ONEZONE_IA`, `INTELLIGENT_TIERING`,
	// `GLACIER_IR`.
	Class string `yaml:"class"`
}

// Maintain says from which figures on gscd maintain works on the files of a table.
type Maintain struct {
	// How many files `gscd maintain` leaves alone beyond those that the live bytes and the partitions ask for.
	ExtraFiles int `yaml:"extra_files" default:"0" range:"0.."`
	// Share of deleted rows of the whole table from which it rewrites the deadest files; at least 50 % for tables
	// below 256 MiB.
	DeadShare Fraction `yaml:"dead_share" default:"35%" range:"0%..100%"`
	// Up to how many bytes of small files that savepoints need it joins, although they are then stored twice.
	PinnedBytes Size `yaml:"pinned_bytes" default:"4MiB"`
	// Share of bytes of a clustered table that may lie anywhere.
	UnclusteredShare Fraction `yaml:"unclustered_share" default:"20%" range:"0%..100%"`
	// Whether it records the [content checksum](on-disk.md#content-checksums) of each savepoint that has none.
	Checksums bool `yaml:"checksums" default:"true"`
}

// UnmarshalText reads a policy alone: retention: keep 90 days, then month ends for 7y.
func (r *Retention) UnmarshalText(text []byte) error { return r.Savepoints.UnmarshalText(text) }

// Table gives the table of a name.
func (c *Config) Table(name string) (*Table, bool) {
	for i := range c.Tables {
		if c.Tables[i].Name == name {
			return &c.Tables[i], true
		}
	}
	return nil, false
}
