package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger hands the library's messages on. Its notes about the ordinary course
// of things are debug messages to us.
type logger struct{ z *zap.Logger }

// Level is called for every message that might be logged.
func (l logger) Level() kgo.LogLevel {
	switch core := l.z.Core(); {
	case core.Enabled(zapcore.DebugLevel):
		return kgo.LogLevelInfo
	case core.Enabled(zapcore.WarnLevel):
		return kgo.LogLevelWarn
	case core.Enabled(zapcore.ErrorLevel):
		return kgo.LogLevelError
	}
	return kgo.LogLevelNone
}

// Log takes key and value by turns.
func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	s := l.z.Sugar()
	switch level {
	case kgo.LogLevelError:
		s.Errorw(msg, keyvals...)
	case kgo.LogLevelWarn:
		s.Warnw(msg, keyvals...)
	default:
		s.Debugw(msg, keyvals...)
	}
}
