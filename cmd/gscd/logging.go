package main

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gscd-io/gscd/query/output"
)

// newLogger makes the logger of the process; terminal is what w leads to. JSON lines have the keys ts, level,
// msg, and those of the event: table, topic, partition, offset, label, version, err.
// The level may be changed later.
func newLogger(w io.Writer, terminal output.Terminal, level, format string) (*zap.Logger, zap.AtomicLevel, error) {
	least := zap.NewAtomicLevelAt(levelOf(level))
	if least.Level() == zapcore.InvalidLevel {
		return nil, least, fmt.Errorf("log level %q is unknown: use debug, info, warn or error", level)
	}
	if format == "auto" {
		format = "json"
		if terminal.Width > 0 {
			format = "console"
		}
	}
	var encoder zapcore.Encoder
	switch format {
	case "json":
		encoder = zapcore.NewJSONEncoder(logKeys(zapcore.LowercaseLevelEncoder, encodeTime("2006-01-02T15:04:05.000Z")))
	case "console":
		color := zapcore.CapitalLevelEncoder
		if terminal.Color {
			color = zapcore.CapitalColorLevelEncoder
		}
		encoder = zapcore.NewConsoleEncoder(logKeys(color, encodeTime("15:04:05.000Z")))
	default:
		return nil, least, fmt.Errorf("log format %q is unknown: use json, console or auto", format)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), least)
	return zap.New(errKey{core}), least, nil
}

// levelOf is a level by its name, zapcore.InvalidLevel for none of them.
func levelOf(name string) zapcore.Level {
	switch name {
	case "debug":
		return zapcore.DebugLevel
	case "info":
		return zapcore.InfoLevel
	case "warn":
		return zapcore.WarnLevel
	case "error":
		return zapcore.ErrorLevel
	}
	return zapcore.InvalidLevel
}

func logKeys(level zapcore.LevelEncoder, at zapcore.TimeEncoder) zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "ts", LevelKey: "level", MessageKey: "msg", NameKey: "logger",
		EncodeTime: at, EncodeLevel: level, EncodeDuration: zapcore.StringDurationEncoder,
	}
}

// encodeTime writes times in UTC, as all times that the program prints.
func encodeTime(layout string) zapcore.TimeEncoder {
	return func(t time.Time, enc zapcore.PrimitiveArrayEncoder) { enc.AppendString(t.UTC().Format(layout)) }
}

// errKey gives the field of zap.Error its name in our logs, err.
type errKey struct{ zapcore.Core }

// With is Core.With.
func (c errKey) With(fields []zapcore.Field) zapcore.Core {
	return errKey{c.Core.With(renamed(fields))}
}

// Check is Core.Check.
func (c errKey) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write is Core.Write.
func (c errKey) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(e, renamed(fields))
}

func renamed(fields []zapcore.Field) []zapcore.Field {
	for i, f := range fields {
		if f.Key == "error" && f.Type == zapcore.ErrorType {
			fields[i].Key = "err"
		}
	}
	return fields
}
