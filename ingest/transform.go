package ingest

import (
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/decode"
)

// newDecoder makes a decoder of a format, with the table's filters and transforms.
func newDecoder(format string, o *Options) (decode.Decoder, error) {
	d, err := decode.New(format, o.Decode)
	if err != nil {
		return nil, err
	}
	return o.Transform.Wrap(d), nil
}

// noteTransform notices that the table was written under other filters and
// transforms: its rows are not what the settings say, until a complete load.
func (l *Lane) noteTransform() {
	if l.p == nil || l.p.Transform == l.o.Transform.Fingerprint() {
		return
	}
	was := l.p.Transform
	l.p.Transform = l.o.Transform.Fingerprint()
	describe := func(s string) string {
		if s == "" {
			return "none"
		}
		return s
	}
	l.o.Log.Warn("filters and transforms have changed: rows that are in the table stay as they were written", zap.String("table", l.o.Name),
		zap.String("was", describe(was)), zap.String("is", describe(l.p.Transform)))
	l.markIncomplete("filters and transforms changed from " + describe(was) + " to " + describe(l.p.Transform))
}
