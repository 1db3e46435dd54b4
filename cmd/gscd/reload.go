package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/server"
)

// reloadOnHangup takes the configuration anew at each SIGHUP until ctx ends. A
// run that stops by itself takes none: there SIGHUP ends it, as without us.
func (a *app) reloadOnHangup(ctx context.Context, s *server.Server, running *config.Config, f *ingestFlags, flags []config.Flag) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				if err := a.reload(ctx, s, running, f, flags); err != nil {
					s.Refused()
					a.logFaults(err)
				}
			}
		}
	}()
}

// errCalendarChanged: the days of no table can be cut anew.
var errCalendarChanged = errors.New("the calendar differs from the running one: it can't be changed for tables that there are; nothing of this configuration is taken")

// reload reads the configuration again and lets the server go over to its
// tables. What is not of a table stays as it is until a restart.
func (a *app) reload(ctx context.Context, s *server.Server, running *config.Config, f *ingestFlags, flags []config.Flag) error {
	next, _, err := a.readConfig(flags...)
	if err != nil {
		return err
	}
	if next.Calendar != running.Calendar {
		return errCalendarChanged
	}
	ignored := slices.DeleteFunc(running.Differences(next), func(key string) bool { return key == "log.level" || key == "http.token" })
	if len(ignored) > 0 {
		a.log.Warn("these keys have changed, and stay as they were until the program is started again", zap.Strings("keys", ignored))
	}
	merged := *running
	merged.Tables = next.Tables
	specs, _, err := a.specs(ctx, &merged, f)
	if err != nil {
		return err
	}
	if (running.HTTP.Token == "") != (next.HTTP.Token == "") {
		a.log.Warn("http.token can be changed while the program runs, but not set or left out: it stays as it was")
	} else {
		s.SetToken(next.HTTP.Token.Reveal())
	}
	s.SetLogLevel(levelOf(next.Log.Level))
	s.Reload(specs)
	return nil
}

// logFaults logs why a configuration is not taken, a line for each fault.
func (a *app) logFaults(err error) {
	var faults *config.Faults
	const message = "the new configuration is not taken; the tables go on with the old one"
	if errors.As(err, &faults) {
		for _, fault := range faults.List {
			a.log.Error(message, zap.String("file", faults.File), zap.Int("line", fault.Line), zap.String("key", fault.Path), zap.String("fault", fault.Message))
		}
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		a.log.Error(message, zap.String("fault", line))
	}
}
