package attempt

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// said is an error with an answer of the service.
type said struct{ Answer }

func (s said) Error() string { return "the SDK's text, with sig=hush" }

func newTestService() *Service {
	return &Service{
		Options: Options{FirstWait: time.Millisecond, Attempts: 4}.WithDefaults(), Name: "the storage", Endpoint: "x.endpoint",
		Answer: func(err error) Answer {
			var s said
			errors.As(err, &s)
			return s.Answer
		},
		Verdict: func(a Answer, _ error) Verdict {
			if a.Code == "busy" {
				return Slower
			}
			return Open
		},
		Missing:  func(a Answer) bool { return a.Code == "missing" },
		Taken:    func(a Answer) bool { return a.Code == "taken" },
		Gone:     func(a Answer) bool { return a.Code == "gone" },
		Sentence: func(Request, Answer, error) string { return "" },
	}
}

func answered(status int, code string) error { return said{Answer{Status: status, Code: code}} }

func TestDecide(t *testing.T) {
	s := newTestService()
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, c := range map[string]struct {
		err            error
		reached        bool
		again, applied bool
	}{
		"400":                {answered(400, ""), true, false, false},
		"403":                {answered(403, ""), true, false, false},
		"412":                {answered(412, "taken"), true, false, false},
		"408":                {answered(408, ""), true, true, false},
		"429":                {answered(429, ""), true, true, false},
		"400 busy":           {answered(400, "busy"), true, true, false},
		"500":                {answered(500, ""), true, true, true},
		"501":                {answered(501, ""), true, false, false},
		"503":                {answered(503, ""), true, true, true},
		"503 busy":           {answered(503, "busy"), true, true, false},
		"broke off":          {io.ErrUnexpectedEOF, true, true, true},
		"any, on a line":     {errors.New("whatever"), true, true, true},
		"no line":            {refused, false, true, false},
		"never sent":         {errors.New("no such thing"), false, false, false},
		"stalled on the way": {ErrStalled, false, true, false},
	} {
		d := s.decide(c.err, 1, c.reached)
		if d.again != c.again || d.applied != c.applied {
			t.Errorf("%s: again %t, applied %t; want %t, %t", name, d.again, d.applied, c.again, c.applied)
		}
	}
	if slow, fast := s.decide(answered(429, ""), 1, true).wait, 2*s.Options.FirstWait; slow < fast {
		t.Errorf("a busy storage is left alone for %s only", slow)
	}
	for n := 1; n < 40; n++ {
		if d := backoff(time.Second, n); d < time.Second/2 || d > 100*time.Second {
			t.Errorf("wait %d is %s", n, d)
		}
	}
}

// What Settle says is true whatever the requests answered and whosever the object is.
func TestSettle(t *testing.T) {
	r := Request{Op: "put", Key: "k", Store: "x://y"}
	broken := errors.New("no look")
	for name, c := range map[string]struct {
		answers []error
		who     Owner
		look    error
		want    error
		sent    int
	}{
		"at once":              {[]error{nil}, Nobody, broken, nil, 1},
		"taken by another":     {[]error{answered(412, "taken")}, Other, nil, objstore.ErrExist, 1},
		"taken by ourselves":   {[]error{answered(412, "taken")}, Own, nil, nil, 1},
		"taken, can't look":    {[]error{answered(412, "taken")}, Nobody, broken, objstore.ErrExist, 1},
		"taken, then free":     {[]error{answered(412, "taken"), nil}, Nobody, nil, nil, 2},
		"lost, ours":           {[]error{io.ErrUnexpectedEOF}, Own, nil, nil, 1},
		"lost, another's":      {[]error{io.ErrUnexpectedEOF}, Other, nil, objstore.ErrExist, 1},
		"lost, nobody's":       {[]error{answered(503, ""), nil}, Nobody, nil, nil, 2},
		"lost, then taken":     {[]error{answered(503, ""), answered(412, "taken"), answered(412, "taken"), answered(412, "taken")}, Nobody, broken, objstore.ErrUnknownOutcome, 2},
		"gone, ours":           {[]error{answered(404, "gone")}, Own, nil, nil, 1},
		"gone, nobody's":       {[]error{answered(404, "gone")}, Nobody, nil, errors.ErrUnsupported, 1},
		"lost for good":        {[]error{answered(503, ""), answered(503, ""), answered(503, ""), answered(503, "")}, Nobody, broken, objstore.ErrUnknownOutcome, 4},
		"refused":              {[]error{answered(403, "")}, Nobody, broken, errors.ErrUnsupported, 1},
		"busy, then refused":   {[]error{answered(429, ""), answered(403, "")}, Nobody, broken, errors.ErrUnsupported, 2},
		"lost, then refused":   {[]error{answered(500, ""), answered(403, "")}, Nobody, nil, objstore.ErrUnknownOutcome, 2},
		"busy from end to end": {[]error{answered(429, ""), answered(429, ""), answered(429, ""), answered(429, "")}, Nobody, broken, objstore.ErrTemporary, 4},
	} {
		sent := 0
		err := newTestService().Settle(t.Context(), r, true, func(ctx context.Context) error {
			httptrace.ContextClientTrace(ctx).GotConn(httptrace.GotConnInfo{})
			sent++
			if sent > len(c.answers) {
				return errors.New("one request too many")
			}
			return c.answers[sent-1]
		}, func(context.Context) (Owner, error) { return c.who, c.look })
		switch {
		case sent != c.sent:
			t.Errorf("%s: sent %d times, want %d", name, sent, c.sent)
		case c.want == nil && err != nil, c.want != nil && err == nil:
			t.Errorf("%s: %v, want %v", name, err, c.want)
		case c.want == errors.ErrUnsupported: //nolint:errorlint // it stands for none of the sentinels
			if errors.Is(err, objstore.ErrUnknownOutcome) || errors.Is(err, objstore.ErrExist) || errors.Is(err, objstore.ErrTemporary) {
				t.Errorf("%s: %v", name, err)
			}
		case c.want != nil && !errors.Is(err, c.want):
			t.Errorf("%s: %v, want one that is %v", name, err, c.want)
		case c.want == objstore.ErrTemporary && errors.Is(err, objstore.ErrUnknownOutcome): //nolint:errorlint // the table's own
			t.Errorf("%s: %v, and it had no effect", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the SDK's text is shown: %v", name, err)
		}
	}
}

// A URL may have a signature in it.
func TestURLIsNotShown(t *testing.T) {
	err := newTestService().Fault(Request{Op: "get", Key: "k", Store: "x://y"}, &url.Error{Op: "Get", URL: "http://h/k?sig=hush", Err: errors.New("odd")})
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "odd") {
		t.Errorf("error %v", err)
	}
}
