package config

import (
	"net/url"
	"strings"
	"time"
)

// The session timeouts that any broker could be told to take.
const (
	minSession = time.Second
	maxSession = 30 * time.Minute
)

func (r *reader) validateScaleOut(cfg *Config) {
	s := &cfg.ScaleOut
	if s.SessionTimeout < minSession || s.SessionTimeout > maxSession {
		r.at("scale_out.session_timeout", "%s is out of bounds: write %s to %s; brokers take no less than 6s where they are not told otherwise (group.min.session.timeout.ms)",
			FormatDuration(s.SessionTimeout), FormatDuration(minSession), FormatDuration(maxSession))
	}
	if s.Group == "" {
		for key, set := range map[string]bool{"member": s.Member != "", "advertise": s.Advertise != "", "ca_file": s.CAFile != ""} {
			if set {
				r.at("scale_out."+key, "belongs to a scale_out.group, which is not set")
			}
		}
		return
	}
	if s.Group == cfg.Kafka.Group {
		r.at("scale_out.group", "%s is kafka.group too, whose offsets are for lag tools: a group has one use, name another", s.Group)
	}
	if s.Member != "" && !topicForm.MatchString(s.Member) {
		r.at("scale_out.member", "%q is no name of a member: 1 to 249 letters, digits, dots, hyphens and underscores", s.Member)
	}
	if a := s.Advertise; a != "" {
		u, err := url.Parse(a)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			r.at("scale_out.advertise", "is no URL that others can ask: write http://HOST:PORT or https://HOST:PORT")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
			r.at("scale_out.advertise", "has more than scheme, host and port: write http://HOST:PORT or https://HOST:PORT")
		}
	}
}
