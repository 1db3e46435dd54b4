// Package mem is an object store in memory: for tests and the demo.
//
// Nouns: Store; a clone, which is the store as a crash would leave it.
//
// Invariants:
//
//  1. Bytes are copied in and out: nobody shares a buffer with the store.
//  2. A Clone and its origin never see each other's later writes.
//  3. List gives one moment of the store, in byte order of keys.
package mem
