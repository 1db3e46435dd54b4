package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// Options say how to reach the brokers and how to read. Only Brokers and
// Topics are needed.
type Options struct {
	// Brokers are addresses HOST:PORT to start from.
	Brokers []string
	// Topics are the topics of the table.
	Topics []string
	// Group names the consumer group whose offsets PublishOffsets sets. Empty: it does nothing.
	Group string
	// ClientID is what the brokers log. Default gscd.
	ClientID string
	// TLS switches encryption on where it is not nil.
	TLS *TLS
	// SASL switches authentication on where it is not nil.
	SASL *SASL

	// MaxRecord is the most bytes of a record (key, value, headers) that are
	// delivered in full, see change.Record.Cap. Default 64 MiB, below 0 no limit.
	MaxRecord int64
	// FetchBytes bounds what was fetched and not yet taken by Poll, all tables of
	// a Cluster together, unpacked: three quarters of it, and one quarter for
	// fetches under way, by the packing of those before. A larger record is read
	// all the same, and a table that has nothing may always fetch a little.
	// Default 64 MiB.
	FetchBytes int64
	// PollWait is how long Poll waits for something to arrive. Default 250 ms.
	PollWait time.Duration
	// RequestTimeout bounds the repeating of one request, and is the time after
	// which Poll tells of a partition that can't be read. Default 15 s.
	RequestTimeout time.Duration
	// Now is the reader's clock. Default time.Now.
	Now func() time.Time

	// Logger takes the library's warnings (and, at debug level, its notes). Default: none.
	Logger *zap.Logger
	// Hooks are handed to the library, for metrics.
	Hooks []kgo.Hook

	// maxBackoff is the longest wait between two tries of one request.
	maxBackoff time.Duration
}

// TLS names the PEM files of an encrypted connection.
type TLS struct {
	// CAFile holds the authorities to trust. Empty: the system's.
	CAFile string
	// CertFile and KeyFile are the client's certificate and key, for brokers that ask for one.
	CertFile, KeyFile string
	// ServerName is the name expected in the brokers' certificates. Empty: the host connected to.
	ServerName string
}

// SASL holds credentials. It prints without the password. Files are read at each
// login: one line, without its end.
type SASL struct {
	// Mechanism is plain, scram-sha-256, scram-sha-512, oauthbearer or aws-msk-iam.
	Mechanism string
	// Username and one of Password and PasswordFile belong to plain and scram.
	Username     string
	Password     string
	PasswordFile string
	// TokenFile holds oauthbearer's token. Extensions go with it, and may be nil.
	TokenFile  string
	Extensions map[string]string
	// Region is that of the MSK cluster, for aws-msk-iam; RoleARN, with ExternalID where the
	// role asks for it, is a role to take with the credentials of the AWS environment.
	Region, RoleARN, ExternalID string
}

// String leaves the password out.
func (s SASL) String() string { return s.Mechanism + ":" + s.Username + ":***" }

// GoString leaves the password out.
func (s SASL) GoString() string { return "kafka.SASL{" + s.String() + "}" }

const (
	defaultMaxRecord  = 64 << 20
	defaultFetchBytes = 64 << 20
	// maxRead is what a broker may send at once: more than any record that a
	// topic would take.
	maxRead = 1 << 30
)

// withDefaults gives a copy in which everything is set.
func (o Options) withDefaults() Options {
	if o.ClientID == "" {
		o.ClientID = "gscd"
	}
	if o.MaxRecord == 0 {
		o.MaxRecord = defaultMaxRecord
	}
	if o.FetchBytes <= 0 {
		o.FetchBytes = defaultFetchBytes
	}
	if o.PollWait <= 0 {
		o.PollWait = 250 * time.Millisecond
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = 15 * time.Second
	}
	if o.maxBackoff <= 0 {
		o.maxBackoff = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// Validate names every fault of the options at once.
func (o Options) Validate() error {
	return errors.Join(o.validateTopics(), o.validateConnection())
}

func (o Options) validateTopics() error {
	var errs []error
	if len(o.Topics) == 0 {
		errs = append(errs, errors.New("kafka: no topic to read"))
	}
	seen := make(map[string]bool)
	for _, t := range o.Topics {
		if t == "" || seen[t] {
			errs = append(errs, fmt.Errorf("kafka: topic %q is empty or named twice", t))
		}
		seen[t] = true
	}
	return errors.Join(errs...)
}

func (o Options) validateConnection() error {
	var errs []error
	if len(o.Brokers) == 0 || slices.Contains(o.Brokers, "") {
		errs = append(errs, errors.New("kafka.brokers: name at least one broker as host:port, and no empty one"))
	}
	if t := o.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		errs = append(errs, errors.New("kafka.tls: cert_file and key_file go together"))
	}
	if s := o.SASL; s != nil {
		if _, err := s.mechanism(); err != nil {
			errs = append(errs, err)
		}
		switch oauth := strings.EqualFold(s.Mechanism, "oauthbearer"); {
		case strings.EqualFold(s.Mechanism, mskIAM):
			if s.Region == "" {
				errs = append(errs, errors.New("kafka.sasl: region must be set, that of the MSK cluster"))
			}
			if s.Username != "" || s.Password != "" || s.PasswordFile != "" || s.TokenFile != "" || s.Extensions != nil {
				errs = append(errs, errors.New("kafka.sasl: aws-msk-iam has no username, password and token"))
			}
		case oauth && s.TokenFile == "":
			errs = append(errs, errors.New("kafka.sasl: token_file must be set"))
		case oauth && (s.Username != "" || s.Password != "" || s.PasswordFile != ""):
			errs = append(errs, errors.New("kafka.sasl: oauthbearer has no username and password"))
		case !oauth && (s.Username == "" || (s.Password == "") == (s.PasswordFile == "")):
			errs = append(errs, errors.New("kafka.sasl: username and one of password and password_file must be set"))
		case !oauth && (s.TokenFile != "" || s.Extensions != nil):
			errs = append(errs, errors.New("kafka.sasl: token_file and extensions belong to oauthbearer"))
		}
	}
	return errors.Join(errs...)
}

// client gives the library's options that all our clients share. o has its defaults.
func (o Options) client(login *login) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID(o.ClientID),
		kgo.SoftwareNameAndVersion("gscd", "1"),
		kgo.DialTimeout(min(5*time.Second, o.RequestTimeout)),
		kgo.RetryTimeout(o.RequestTimeout),
		kgo.RetryBackoffFn(o.backoff),
		// A leader that moved is found within this time.
		kgo.MetadataMinAge(time.Second),
		kgo.BrokerMaxReadBytes(maxRead),
		kgo.DisableClientMetrics(),
		kgo.WithLogger(logger{o.Logger}),
		kgo.WithHooks(o.Hooks...),
	}
	if o.TLS != nil {
		if _, err := login.tlsConfig(); err != nil {
			return nil, err
		}
		dialer := &net.Dialer{Timeout: min(5*time.Second, o.RequestTimeout)}
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return login.dial(ctx, dialer, network, address)
		}))
	}
	if o.SASL != nil {
		m, err := o.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

// backoff waits 50 ms, then twice as long each time, with a fifth of chance in
// it so that the tables of one process don't all come back at once.
func (o Options) backoff(fails int) time.Duration {
	wait := min(o.maxBackoff, 50*time.Millisecond<<min(max(fails-1, 0), 10))
	return wait - rand.N(wait/5+1)
}
