// Package tracing makes spans of OpenTelemetry of how the time of batches goes, and sends them to
// a collector by OTLP over HTTP.
//
// Nouns: Tracer (of a process: sampling, the queue, the way to the collector), Table (the
// stages of one table: an ingest.Tracer and ingest.Observer).
//
// Invariants:
//
//  1. One trace is one batch, one seal, or one checkpoint beside them. The spans of a batch
//     lie below it: poll, decode, fold (each from its first stretch to its last, with the time
//     at work as busy_ms), encode with the uploads below it, commit.
//  2. A batch waits for no span: they are queued, and dropped where the collector is away.
//  3. No value of a row is in a span, and no key of one.
package tracing
