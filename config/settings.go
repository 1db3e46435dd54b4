package config

import "time"

// The tags of a field: yaml is its key, default its default as one would write
// it, oneof the words that it may be.

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
	Process  Process  `yaml:"process"`
	// Tables have names that differ and locations that differ.
	Tables []Table `yaml:"-"`
}

// Kafka says how to reach the brokers.
type Kafka struct {
	// Brokers are host:port addresses; empty where topics are read from files.
	Brokers  []string `yaml:"brokers"`
	ClientID string   `yaml:"client_id" default:"gscd"`
	// Group is the consumer group that offsets are published to, for lag tools.
	Group string `yaml:"group"`
	// FetchBytes bounds what all tables together have fetched and not yet taken.
	FetchBytes Size `yaml:"fetch_bytes" default:"64MiB"`
	// TLS is nil where the section is absent; an empty section is TLS with the
	// system's authorities.
	TLS *TLS `yaml:"tls"`
	// SASL is nil where the section is absent.
	SASL *SASL `yaml:"sasl"`
}

// TLS names files in PEM form.
type TLS struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// SASL is the login at the brokers. Its files are read at each login.
type SASL struct {
	Mechanism string `yaml:"mechanism" oneof:"plain scram-sha-256 scram-sha-512 oauthbearer"`
	// Username and one of Password and PasswordFile belong to all but oauthbearer.
	Username     string `yaml:"username"`
	Password     Secret `yaml:"password"`
	PasswordFile string `yaml:"password_file"`
	// TokenFile and Extensions belong to oauthbearer.
	TokenFile  string            `yaml:"token_file"`
	Extensions map[string]string `yaml:"extensions"`
}

// Transform is what the transforms of all tables share.
type Transform struct {
	// HashSecret is the key of hashed columns.
	HashSecret Secret `yaml:"hash_secret"`
}

// SchemaRegistry is where Avro schemas come from.
type SchemaRegistry struct {
	// URL is the address of a registry, or several of one with commas between.
	URL string `yaml:"url"`
	// Username and Password, or Token, or none of them.
	Username string `yaml:"username"`
	Password Secret `yaml:"password"`
	Token    Secret `yaml:"token"`
	// CAFile, CertFile and KeyFile are in PEM form.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// URLs gives the addresses: all of them of Confluent's API, or all of Apicurio's own.
func (s *SchemaRegistry) URLs() []string { return splitList(s.URL) }

// S3 overrides the AWS defaults (environment, profile, instance role).
type S3 struct {
	Endpoint        string `yaml:"endpoint"`
	Region          string `yaml:"region"`
	PathStyle       bool   `yaml:"path_style"`
	AccessKeyID     string `yaml:"access_key_id"`
	SecretAccessKey Secret `yaml:"secret_access_key"`
	SessionToken    Secret `yaml:"session_token"`
	// CAFile is a PEM file of the authorities that sign the storage's certificate.
	CAFile string `yaml:"ca_file"`
	// LogStore is what lets one writer alone commit a version: conditions on puts,
	// or a DynamoDB table that Spark's writers go through too.
	LogStore string `yaml:"log_store" default:"conditional-put" oneof:"conditional-put dynamodb"`
	// The DynamoDB table, with log_store: dynamodb. Scheme is how the other writers
	// begin the address of a table; all must spell it alike.
	DynamoDBTable    string `yaml:"dynamodb_table" default:"delta_log"`
	DynamoDBRegion   string `yaml:"dynamodb_region"`
	DynamoDBEndpoint string `yaml:"dynamodb_endpoint"`
	DynamoDBScheme   string `yaml:"dynamodb_scheme" default:"s3a" oneof:"s3a s3"`
}

// GCS overrides the application default credentials of Google.
type GCS struct {
	Endpoint        string `yaml:"endpoint"`
	CredentialsFile string `yaml:"credentials_file"`
	Anonymous       bool   `yaml:"anonymous"`
}

// Azure says how az:// and abfss:// addresses are reached; without key and token
// the login is the environment's.
type Azure struct {
	Account    string `yaml:"account"`
	Endpoint   string `yaml:"endpoint"`
	AccountKey Secret `yaml:"account_key"`
	SASToken   Secret `yaml:"sas_token"`
	Anonymous  bool   `yaml:"anonymous"`
}

// MySQL says how the servers of mysql:// addresses are reached.
type MySQL struct {
	// Password is that of the user in the address.
	Password Secret `yaml:"password"`
	TLS      string `yaml:"tls" default:"none" oneof:"none require skip-verify"`
	// CAFile is a PEM file of the authorities that sign the server's certificate; it asks for TLS.
	CAFile string `yaml:"ca_file"`
}

// Capture says what gscd capture reads and writes. Password and TLS of its servers
// are those of the section mysql.
type Capture struct {
	// Name is the source's logical name: it begins topics, and records carry it.
	Name string `yaml:"name"`
	// Servers are addresses mysql://USER@HOST:PORT; the first that answers is read.
	Servers []string `yaml:"servers"`
	// ServerID is ours among the replicas of the servers.
	ServerID int `yaml:"server_id"`
	// Tables and Exclude are patterns DATABASE.TABLE with * and ?.
	Tables  []string `yaml:"tables"`
	Exclude []string `yaml:"exclude"`
	// Topic is a table's topic, with {name}, {database} and {table}.
	Topic string `yaml:"topic" default:"{name}.{database}.{table}"`
	// StateTopic keeps position, load and schema history; default gscd-capture-NAME.
	StateTopic string `yaml:"state_topic"`
	// Partitions and Replication (0: the brokers' default) are of topics that are made, as are TopicSettings.
	Partitions    int               `yaml:"partitions" default:"4"`
	Replication   int               `yaml:"replication" default:"0"`
	TopicSettings map[string]string `yaml:"topic_settings"`
	Form          string            `yaml:"form" default:"gscd" oneof:"gscd debezium debezium-schemas"`
	Delivery      string            `yaml:"delivery" default:"transactions" oneof:"transactions idempotent"`
	Load          CaptureLoad       `yaml:"load"`
	// Heartbeat is how often partitions without changes are told of the time.
	Heartbeat time.Duration `yaml:"heartbeat" default:"10s"`
	// Batch closes at whichever comes first, with the next end of a transaction.
	Batch CaptureBatch `yaml:"batch"`
	// MaxMessage is the largest record with what the format adds.
	MaxMessage Size `yaml:"max_message" default:"1000012"`
}

// CaptureLoad is the initial read of the tables.
type CaptureLoad struct {
	Mode string `yaml:"mode" default:"initial" oneof:"initial never"`
	// Parallel is how many connections read; each takes ChunkRows rows of a table at a time.
	Parallel  int `yaml:"parallel" default:"4"`
	ChunkRows int `yaml:"chunk_rows" default:"50000"`
	// Lock is whether the short lock may be taken where the server asks for it.
	Lock string `yaml:"lock" default:"auto" oneof:"auto never"`
}

// CaptureBatch is what is written together.
type CaptureBatch struct {
	Interval time.Duration `yaml:"interval" default:"200ms"`
	Bytes    Size          `yaml:"bytes" default:"8MiB"`
}

// Calendar is the business calendar of all tables.
type Calendar struct {
	// Granularity is day, hour, week, month, or minutes that divide the hour: 5m.
	Granularity string `yaml:"granularity" default:"day"`
	// Timezone is an IANA name. It has no default: a wrong midnight can't be mended later.
	Timezone string `yaml:"timezone"`
	// Cutover is the time of day, HH:MM, at which a day, week or month begins.
	Cutover string `yaml:"cutover" default:"00:00"`
}

// HTTP is where an ingester tells how it stands.
type HTTP struct {
	// Address is HOST:PORT; empty: nothing is told. A port alone is one of 127.0.0.1.
	Address string `yaml:"address"`
}

// Process bounds what all tables of a process take together. What is 0 depends
// on the machine.
type Process struct {
	// BatchMemory is bytes of records in uncommitted batches.
	BatchMemory Size `yaml:"batch_memory"`
	// HeavyTasks is how many tables seal, write a checkpoint or build an index at once.
	HeavyTasks int `yaml:"heavy_tasks"`
	// CacheDir is a folder on local disk for what spares requests at the next start: the
	// key indexes of tables in object stores. Empty: none is kept.
	CacheDir string `yaml:"cache_dir"`
	// MaintainInterval is from the beginning of one round of gscd maintain to that of the next.
	MaintainInterval time.Duration `yaml:"maintain_interval" default:"1h"`
}

// Table is one table with all its settings: its own, else those of the section
// defaults, else the program's.
type Table struct {
	// Name is how commands call it; default: the last part of the location.
	Name string `yaml:"name"`
	// Location is a path, or a URL file://, s3://, gs://, az:// or abfss://.
	Location string `yaml:"location"`
	// Topics may be empty: such a table is filled by gscd load.
	Topics []string `yaml:"topics"`
	// Source picks one table, db.table, out of topics that carry several.
	Source   string `yaml:"source"`
	Settings `yaml:",inline"`
}

// Settings is what the section defaults may set.
type Settings struct {
	// Format of the records; auto: decided by the first record with a value.
	Format   string   `yaml:"format" default:"auto"`
	Debezium Debezium `yaml:"debezium"`
	Canal    Canal    `yaml:"canal"`
	DMS      DMS      `yaml:"aws_dms"`
	OGG      OGG      `yaml:"ogg"`
	Avro     Avro     `yaml:"avro"`
	// Key columns; empty: what the records name.
	Key []string `yaml:"key"`
	// EventTime is source, kafka, or column:NAME.
	EventTime    string        `yaml:"event_time" default:"source"`
	Drift        Drift         `yaml:"drift"`
	MaxClockSkew time.Duration `yaml:"max_clock_skew" default:"5m"`
	Write        Write         `yaml:"write"`
	Batch        Batch         `yaml:"batch"`
	Late         string        `yaml:"late" default:"fold" oneof:"fold dead_letter fail"`
	Future       string        `yaml:"future" default:"dead_letter" oneof:"dead_letter clamp"`
	Truncate     string        `yaml:"truncate" default:"apply" oneof:"apply ignore fail"`
	// ChangeData sets delta.enableChangeDataFeed.
	ChangeData bool `yaml:"change_data"`
	// Protect is backup by default for day and coarser labels, else none.
	Protect string `yaml:"protect" oneof:"backup none lock"`
	// ProtectChosen: protect was set, not left to its default. Only then a table that
	// is there is made so.
	ProtectChosen bool     `yaml:"-"`
	PartitionBy   []string `yaml:"partition_by"`
	// Columns maps column names to Delta or MySQL types.
	Columns map[string]string `yaml:"columns"`
	// IncludeColumns to RowFilter say what of the source comes into the table; names
	// are the source's. Masks are the text in place of a value, Cast maps to types.
	IncludeColumns []string          `yaml:"include_columns"`
	ExcludeColumns []string          `yaml:"exclude_columns"`
	HashColumns    []string          `yaml:"hash_columns"`
	Mask           map[string]string `yaml:"mask"`
	Rename         map[string]string `yaml:"rename"`
	Cast           map[string]string `yaml:"cast"`
	RowFilter      string            `yaml:"row_filter"`
	// ShardColumn names the shard of each row, in the key; nil for none.
	ShardColumn *ShardColumn `yaml:"shard_column"`
	// SchemaTopic is the topic of the connector's DDL, which gives the types of records
	// without schemas.
	SchemaTopic       string   `yaml:"schema_topic"`
	Start             Start    `yaml:"start" default:"earliest"`
	OnLostOffsets     string   `yaml:"on_lost_offsets" default:"fail" oneof:"fail continue"`
	Reload            string   `yaml:"reload" default:"replace" oneof:"replace merge"`
	MaxDeleteFraction Fraction `yaml:"max_delete_fraction" default:"20%"`
	Tombstones        string   `yaml:"tombstones" default:"ignore" oneof:"ignore delete"`
	// TombstonesChosen: tombstones was set, not left to its default. Some
	// flattened topics can't be read without a choice.
	TombstonesChosen bool       `yaml:"-"`
	Mode             string     `yaml:"mode" default:"upsert" oneof:"upsert append"`
	PartialImage     string     `yaml:"partial_image" default:"merge" oneof:"merge dead_letter fail"`
	NullKey          string     `yaml:"null_key" default:"value" oneof:"value dead_letter fail"`
	NewColumn        string     `yaml:"new_column" default:"add" oneof:"add ignore fail"`
	MissingColumn    string     `yaml:"missing_column" default:"keep" oneof:"keep fail"`
	DDL              string     `yaml:"ddl" default:"follow" oneof:"follow keep_both fail"`
	BadValue         string     `yaml:"bad_value" default:"dead_letter" oneof:"dead_letter null fail"`
	Compacted        string     `yaml:"compacted" default:"refuse" oneof:"refuse allow"`
	DeadLetter       DeadLetter `yaml:"dead_letter"`
	MaxRecord        Size       `yaml:"max_record" default:"64MiB"`
	Seal             Seal       `yaml:"seal"`
	Retention        Retention  `yaml:"retention"`
	Maintain         Maintain   `yaml:"maintain"`
}

// ShardColumn is a column of the table that the source does not have.
type ShardColumn struct {
	Name string `yaml:"name"`
	// From is topic, database, table or server.
	From string `yaml:"from" default:"topic"`
}

// Debezium says how records without schemas encode values; "" is unknown.
type Debezium struct {
	Decimals string `yaml:"decimals" oneof:"base64 text"`
	Unsigned string `yaml:"unsigned" oneof:"long"`
	Binary   string `yaml:"binary" oneof:"base64"`
}

// Canal says how Canal was set up.
type Canal struct {
	// Timezone is the IANA name of the zone of Canal's process, in which it writes
	// TIMESTAMP columns; "" is unknown.
	Timezone string `yaml:"timezone"`
}

// DMS says how a task of AWS DMS was set up; "" is its default.
type DMS struct {
	// BeforeImage is the name of the object with the row before (FieldName).
	BeforeImage string `yaml:"before_image"`
	// BeforePrefix begins the columns with values before (add-before-image-columns).
	BeforePrefix string `yaml:"before_prefix"`
	// KeyChanges is none where no update changes a key.
	KeyChanges string `yaml:"key_changes" oneof:"none"`
}

// OGG says how Oracle GoldenGate was set up.
type OGG struct {
	// Timezone is the IANA name of the zone of op_ts; "" is UTC.
	Timezone string `yaml:"timezone"`
}

// Avro says how records name their schemas.
type Avro struct {
	Frame string `yaml:"frame" default:"auto" oneof:"auto confluent apicurio headers"`
	// ID is what the ids count; "" is content, in Apicurio's frame global.
	ID string `yaml:"id" oneof:"content global"`
}

// Drift is how long the changes of a label may take to arrive.
type Drift struct {
	// Wait is event time past the label's end; more than MaxClockSkew.
	Wait time.Duration `yaml:"wait" default:"10m"`
	// Idle is the reader's clock past that, for partitions that fell silent.
	Idle time.Duration `yaml:"idle" default:"5m"`
}

// Write is how rows are replaced.
type Write struct {
	Mode string `yaml:"mode" default:"merge-on-read" oneof:"merge-on-read copy-on-write"`
}

// Batch closes at whichever of Interval, Rows and Bytes comes first.
type Batch struct {
	Interval time.Duration `yaml:"interval" default:"60s"`
	Rows     int           `yaml:"rows" default:"200000"`
	Bytes    Size          `yaml:"bytes" default:"256MiB"`
	// MaxInterval bounds how far Interval may stretch.
	MaxInterval time.Duration `yaml:"max_interval" default:"10m"`
}

// DeadLetter is where records go that can't be applied.
type DeadLetter struct {
	// Limit is the share of the last 10,000 records that stops the table; 0: the first one.
	Limit Fraction `yaml:"limit" default:"1%"`
	// To is table, or topic:NAME (in addition to the table).
	To string `yaml:"to" default:"table"`
}

// Seal says what proof a seal needs.
type Seal struct {
	Proof string `yaml:"proof" default:"none" oneof:"none any heartbeat"`
	// Topic is the heartbeat topic, with proof heartbeat.
	Topic string `yaml:"topic"`
	// Checksum records the checksum of a label's rows right behind its seal.
	Checksum bool `yaml:"checksum"`
	// Manifest is what is written at each seal for engines that do not read the log.
	Manifest string `yaml:"manifest" default:"none" oneof:"none files symlink"`
}

// Retention says what is kept for how long.
type Retention struct {
	// History is how long versions without a savepoint stay readable.
	History    time.Duration `yaml:"history" default:"24h"`
	Savepoints Policy        `yaml:"savepoints" default:"forever"`
	// RolledBack is how long a savepoint stays after a rollback behind it.
	RolledBack time.Duration `yaml:"rolled_back" default:"30d"`
	Tier       Tier          `yaml:"tier"`
}

// Tier is where files go that only old savepoints need; the zero value is nowhere.
type Tier struct {
	// After is how long ago the labels of these savepoints ended.
	After time.Duration `yaml:"after"`
	// Class is the storage's own word for a class whose objects are read like any other.
	Class string `yaml:"class"`
}

// Maintain says from which figures on gscd maintain works on the files of a table.
type Maintain struct {
	// ExtraFiles is how many files there may be beyond what the live bytes and the
	// partitions ask for.
	ExtraFiles int `yaml:"extra_files" default:"0"`
	// DeadShare is the share of deleted rows that a table may have.
	DeadShare Fraction `yaml:"dead_share" default:"35%"`
	// PinnedBytes of small files that savepoints need are joined, and so stored twice.
	PinnedBytes Size `yaml:"pinned_bytes" default:"4MiB"`
	// UnclusteredShare is the share of bytes of a clustered table that may lie anywhere.
	UnclusteredShare Fraction `yaml:"unclustered_share" default:"20%"`
	// Checksums records the content checksum of each savepoint.
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
