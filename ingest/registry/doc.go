// Package registry fetches Avro schemas from a schema registry.
//
// It owns the two HTTP APIs (Confluent's, which Apicurio, Karapace and Redpanda
// speak too, and Apicurio's own), what is kept of their answers, and the judgement
// of their errors.
//
// Nouns: Client (one a process, shared by all decoders), Options.
//
// Invariants:
//
//  1. What an id stands for never changes, so a schema is fetched once. That there
//     is none, or that the registry failed, is believed for seconds only.
//  2. decode.ErrNoSchema is what a registry has said; an address that can't be
//     reached is never taken for it. With several addresses all must have said it.
//  3. Asking again is this package's: a call takes at most Options.Patience.
//  4. No error has a password, a token or a login in it.
package registry
