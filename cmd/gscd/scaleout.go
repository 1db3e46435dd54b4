package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/server"
	sharing "github.com/gscd-io/gscd/server/group"
)

// scaleOutFlags are those of scale_out.
var scaleOutFlags = []settingFlag{
	{"scale-out-group", "scale_out.group", "group", "Kafka `group` whose processes share the tables out among them (default: none, all tables run here)"},
	{"scale-out-member", "scale_out.member", "name", "`name` of this process in the group, no other's (default: $POD_NAME, else the host's)"},
	{"scale-out-session-timeout", "scale_out.session_timeout", "duration", "`duration` of silence after which the others take the tables of a process (default 10s)"},
	{"scale-out-advertise", "scale_out.advertise", "URL", "`URL`, http://HOST:PORT, at which the others ask this process for its status (default: by --http)"},
}

// groupMember makes this process's part in its group, nil where none is configured.
func (a *app) groupMember(cfg *config.Config, f *ingestFlags) (*sharing.Member, error) {
	s := &cfg.ScaleOut
	switch {
	case s.Group == "", len(f.input) > 0: // a recording is read by who was given it
		return nil, nil
	case f.untilEnd:
		return nil, usagef("--until-end and scale_out.group %s don't go together: a run with an end would take tables from the group; stop the group and set --scale-out-group '', or leave --until-end out", s.Group)
	}
	brokers, err := a.kafkaOptions(cfg, nil)
	if err != nil {
		return nil, err
	}
	name, err := a.memberName(s)
	if err != nil {
		return nil, err
	}
	address, err := advertised(cfg)
	if err != nil {
		return nil, err
	}
	m, err := sharing.NewMember(sharing.Options{
		Group: s.Group, Name: name, Address: address, SessionTimeout: s.SessionTimeout, Brokers: brokers, Log: a.log,
	})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return m, nil
}

// memberName is what this process is called in its group.
func (a *app) memberName(s *config.ScaleOut) (string, error) {
	if s.Member != "" {
		return s.Member, nil
	}
	if name := a.getenv("POD_NAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("this host has no name: set scale_out.member (--scale-out-member): %w", err)
	}
	return name, nil
}

// advertised is the URL at which others ask this process: that of scale_out, else
// one made of http.address, with the host's name where it listens everywhere.
func advertised(cfg *config.Config) (string, error) {
	if cfg.ScaleOut.Advertise != "" || cfg.HTTP.Address == "" {
		return strings.TrimSuffix(cfg.ScaleOut.Advertise, "/"), nil
	}
	host, port, err := net.SplitHostPort(cfg.HTTP.Address)
	if err != nil {
		return "", usagef("http.address: %w", err)
	}
	if port == "0" {
		return "", nil // nobody knows it before it is bound
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("this host has no name: set scale_out.advertise: %w", err)
		}
	}
	return processScheme(cfg) + "://" + net.JoinHostPort(host, port), nil
}

// asker asks the other processes of the group.
func (a *app) asker(cfg *config.Config) (server.Asker, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := cfg.ScaleOut.CAFile; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return server.Asker{}, usagef("scale_out.ca_file: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return server.Asker{}, usagef("scale_out.ca_file: %s has no certificate in PEM form", file)
		}
	}
	// Who must show a certificate shows the one that it answers with.
	if t := cfg.HTTP.TLS; t != nil && t.ClientCAFile != "" {
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &pair, err
		}
	}
	authorize := func(r *http.Request) {
		if token := cfg.HTTP.Token.Reveal(); token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	return server.Asker{Authorize: authorize, Client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: settings, Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1},
		// What a member advertises is asked, and nothing that it points to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// printGroup prints the group of the configuration: as csv and for a person a row
// for each table, else one object.
func (a *app) printGroup(ctx context.Context) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	name := cfg.ScaleOut.Group
	if name == "" {
		return usagef("no group is configured: scale_out.group names the one whose processes share the tables")
	}
	brokers, err := a.kafkaOptions(cfg, nil)
	if err != nil {
		return err
	}
	described, err := kafka.DescribeGroup(ctx, brokers, name)
	if err != nil {
		return brokerFault(ctx, cfg, err)
	}
	v, err := sharing.Described(name, described)
	if err != nil {
		return err
	}
	if !v.Joined {
		if described.State != "Dead" && described.State != "Empty" {
			return fmt.Errorf("group %s is just being shared out (%s): ask again", name, described.State)
		}
		a.noticef("group %s has no members", name)
	}
	asker, err := a.asker(cfg)
	if err != nil {
		return err
	}
	return a.printGroupRecord(asker.Group(ctx, v))
}

func (a *app) printGroupRecord(r output.Record) error {
	format, err := output.Resolve(a.flags.format, a.stdout)
	if err != nil {
		return err
	}
	if format != output.CSV && format != output.Table {
		return a.printObject(r)
	}
	var rows []output.Record
	for _, item := range r {
		members, ok := item.Value.([]output.Record)
		if !ok {
			continue
		}
		for _, m := range members {
			member, fault := m[0], m[3].Value
			if fault != nil {
				a.noticef("gscd: member %v does not tell of its tables: %v", member.Value, fault)
			}
			for _, table := range m[4].Value.([]output.Record) {
				rows = append(rows, append(output.Record{member}, table...))
			}
		}
	}
	return output.WriteRecords(format, a.stdout, rows)
}
