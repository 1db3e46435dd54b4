package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Options say where spans go.
type Options struct {
	// Endpoint is the collector's address, http://HOST:4318 or with the path of its traces.
	Endpoint string
	// HeadersFile has a header a line, NAME: VALUE; "" for none.
	HeadersFile string
	// CAFile is a PEM file of the authorities that sign the collector's certificate.
	CAFile string
	// Sample is the share of batches that are traced, above 0 to 1.
	Sample float64
	// Version is the program's.
	Version string
	Log     *zap.Logger
}

// Tracer sends spans. Safe for concurrent use.
type Tracer struct {
	provider *trace.TracerProvider
	tracer   api.Tracer
}

// sendEvery is how long a span waits for others to be sent with.
const sendEvery = 2 * time.Second

// New makes a Tracer. The collector is not asked yet.
func New(ctx context.Context, o Options) (*Tracer, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("tracing.endpoint is no URL: write http://HOST:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(10 * time.Second)}
	if o.HeadersFile != "" {
		headers, err := readHeaders(o.HeadersFile)
		if err != nil {
			return nil, fmt.Errorf("tracing.headers_file: %w", err)
		}
		options = append(options, otlptracehttp.WithHeaders(headers))
	}
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tracing.ca_file: %w", err)
		}
		trusted.RootCAs = x509.NewCertPool()
		if !trusted.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tracing.ca_file: %s has no certificate in PEM form", o.CAFile)
		}
	}
	if u.Scheme == "https" {
		options = append(options, otlptracehttp.WithTLSClientConfig(trusted))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("tracing.endpoint: %w", err)
	}
	log := o.Log
	if log == nil {
		log = zap.NewNop()
	}
	return newTracer(&quiet{SpanExporter: exporter, log: log, host: u.Host}, o), nil
}

func newTracer(exporter trace.SpanExporter, o Options) *Tracer {
	provider := trace.NewTracerProvider(
		trace.WithBatcher(exporter, trace.WithBatchTimeout(sendEvery)),
		trace.WithSampler(trace.TraceIDRatioBased(o.Sample)),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "gscd"), attribute.String("service.version", o.Version))),
	)
	return &Tracer{provider, provider.Tracer("github.com/gscd-io/gscd")}
}

// Close sends what is left until ctx ends.
func (t *Tracer) Close(ctx context.Context) { _ = t.provider.Shutdown(ctx) } // quiet has logged what failed

// quiet logs that spans could not be sent, in place of the library's own standard error.
type quiet struct {
	trace.SpanExporter
	log  *zap.Logger
	host string
}

var _ trace.SpanExporter = (*otlptrace.Exporter)(nil)

// ExportSpans is trace.SpanExporter's.
func (q *quiet) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil && ctx.Err() == nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err
		}
		q.log.Warn("spans were not sent, and are dropped", zap.String("collector", q.host), zap.Int("spans", len(spans)), zap.Error(err))
	}
	return nil
}

func readHeaders(name string) (map[string]string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	headers := map[string]string{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsAny(key, " \t") {
			return nil, fmt.Errorf("%s: line %d is no header: write NAME: VALUE", name, n) // not the line: it may be a token
		}
		headers[key] = strings.TrimSpace(value)
	}
	return headers, nil
}
