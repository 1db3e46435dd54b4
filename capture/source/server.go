package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// Scheme begins an address: mysql://USER@HOST[:PORT].
const Scheme = "mysql://"

// ErrAddress is wrapped by errors about a text that is no address.
var ErrAddress = errors.New("no address of a server")

// Options say how a server is reached.
type Options struct {
	// Password of the user that the address names.
	Password string
	// TLS encrypts the connection; CAFile (PEM) names the authorities of the server's
	// certificate, "" those of the system. SkipVerify takes any certificate.
	TLS, SkipVerify bool
	CAFile          string
	// CertFile and KeyFile (PEM) are our certificate and its key, both or neither; they ask
	// for TLS. They are read when the address is.
	CertFile, KeyFile string
}

// String leaves out the password.
func (o Options) String() string {
	return fmt.Sprintf("TLS %t, any certificate %t, authorities %q, certificate %q", o.TLS, o.SkipVerify, o.CAFile, o.CertFile)
}

// GoString is String.
func (o Options) GoString() string { return o.String() }

// Server is how a server is reached.
type Server struct {
	user, host string
	port       uint16
	password   string
	tls        *tls.Config
}

// Open reads an address; nothing is reached yet. The error wraps ErrAddress, or is that of
// reading a file of the options, and does not show a password.
func Open(address string, o Options) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, Scheme) {
		return nil, fmt.Errorf("%w: write %sUSER@HOST:PORT", ErrAddress, Scheme)
	}
	if _, has := u.User.Password(); has {
		return nil, fmt.Errorf("%w: it has a password, which would be seen: leave it out, and set the password by itself", ErrAddress)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if u.Port() == "" {
		port, err = 3306, nil
	}
	if err != nil || u.User.Username() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: write %sUSER@HOST:PORT", ErrAddress, Scheme)
	}
	s := &Server{user: u.User.Username(), host: u.Hostname(), port: uint16(port), password: o.Password}
	if o.TLS || o.SkipVerify || o.CAFile != "" || o.CertFile != "" {
		s.tls = &tls.Config{ServerName: s.host, InsecureSkipVerify: o.SkipVerify, MinVersion: tls.VersionTLS12}
		if o.CAFile != "" {
			pem, err := os.ReadFile(o.CAFile)
			if err != nil {
				return nil, err
			}
			s.tls.RootCAs = x509.NewCertPool()
			if !s.tls.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s has no certificate", o.CAFile)
			}
		}
		if o.CertFile != "" || o.KeyFile != "" {
			pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("mysql.cert_file, key_file: %w", err)
			}
			s.tls.Certificates = []tls.Certificate{pair}
		}
	}
	return s, nil
}

// String is Name: no verb prints the password.
func (s *Server) String() string { return s.Name() }

// GoString is Name.
func (s *Server) GoString() string { return s.Name() }

// Name is the address.
func (s *Server) Name() string { return Scheme + s.user + "@" + s.address() }

func (s *Server) address() string {
	return net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))
}

// User is the login's name.
func (s *Server) User() string { return s.user }

// Session is a connection to a server, for one goroutine.
type Session struct {
	server *Server
	conn   *client.Conn
	stop   func() bool
	// MariaDB tells it from MySQL; Version is the server's, as it tells it.
	MariaDB bool
	Version string
}

// Connect opens a session in UTC with utf8mb4. It is closed when ctx ends.
func (s *Server) Connect(ctx context.Context) (*Session, error) {
	conn, err := client.ConnectWithContext(ctx, s.address(), s.user, s.password, "", 10*time.Second, func(c *client.Conn) error {
		if s.tls != nil {
			c.SetTLSConfig(s.tls.Clone())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.Name(), marked(err))
	}
	out := &Session{server: s, conn: conn, Version: conn.GetServerVersion()}
	out.MariaDB = strings.Contains(strings.ToLower(out.Version), "mariadb")
	out.Version = strings.TrimPrefix(out.Version, "5.5.5-") // what MariaDB says to old replicas
	out.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	// The server gives up one that reads slowly: Kafka may hold us up for long.
	const patience = "SET SESSION net_write_timeout = 28800, SESSION net_read_timeout = 28800, SESSION wait_timeout = 28800"
	for _, statement := range []string{"SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00', SESSION sql_mode = ''", patience} {
		if err := out.Exec(statement); err != nil {
			out.Close()
			return nil, err
		}
	}
	return out, nil
}

// Close ends the session.
func (s *Session) Close() {
	s.stop()
	_ = s.conn.Close()
}

// Exec runs a statement without a result.
func (s *Session) Exec(statement string) error {
	r, err := s.conn.Execute(statement)
	if err != nil {
		return s.failed(statement, err)
	}
	r.Close()
	return nil
}

func (s *Session) failed(statement string, err error) error {
	if len(statement) > 200 {
		statement = statement[:200] + "…"
	}
	return fmt.Errorf("%s: %s: %w", s.server.Name(), statement, marked(err))
}

// What becomes of an error.
var (
	// ErrLost: the connection has ended.
	ErrLost = errors.New("the connection to the server is lost")
	// ErrPassing: the server can't answer now.
	ErrPassing = errors.New("the server can't answer now")
)

// marked says of an error whether it passes.
func marked(err error) error {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fmt.Errorf("%w: mysql.ca_file names the authorities that sign it", err)
	}
	switch code(err) {
	case 0:
		return fmt.Errorf("%w: %w", ErrLost, err)
	// Too many connections, shutdown, lock wait, deadlock, killed.
	case 1040, 1053, 1077, 1079, 1203, 1205, 1213, 1317, 1927:
		return fmt.Errorf("%w: %w", ErrPassing, err)
	}
	return err
}

// query gives the rows of a statement, by the names of its columns.
func (s *Session) query(statement string) ([]row, error) {
	r, err := s.conn.Execute(statement)
	if err != nil {
		return nil, s.failed(statement, err)
	}
	defer r.Close()
	out := make([]row, r.RowNumber())
	for i := range out {
		out[i] = row{}
		for j, f := range r.Fields {
			text, err := r.GetString(i, j)
			if err != nil {
				return nil, s.failed(statement, err)
			}
			out[i][strings.ToLower(string(f.Name))] = strings.Clone(text)
		}
	}
	return out, nil
}

// row is a row of a small answer, by names in lower case; NULL is "".
type row map[string]string

// IsServer tells an error that the server has answered with from one of the connection.
func IsServer(err error) bool {
	var e *mysql.MyError
	return errors.As(err, &e)
}

// code is the number of the server's error, 0 for others.
func code(err error) uint16 {
	var e *mysql.MyError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Errors of the server that are asked for.
const (
	erAccessDenied       = 1044
	erWrongLogin         = 1045
	erTableAccessDenied  = 1142
	erSpecialDenied      = 1227
	erSyntax             = 1064
	erNoSuchTable        = 1146
	erTableDefChanged    = 1412
	erMasterFatal        = 1236
	erUnknownVariable    = 1193
	erNoSuchGrantForUser = 1141
	erBadField           = 1054
)

// denied tells that the user has no right to a statement.
func denied(err error) bool {
	switch code(err) {
	case erAccessDenied, erTableAccessDenied, erSpecialDenied:
		return true
	}
	return false
}

// quoted makes a name of an identifier.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// text makes a literal that means the same in every sql_mode and character set.
func text(s string) string { return fmt.Sprintf("_utf8mb4 x'%x'", s) }
