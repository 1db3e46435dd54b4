// Package objstore is the edge to storage: objects under keys below one root.
//
// Nouns: Store (a handful of calls, put-if-absent among them), Streamer (a Store
// that takes an object in pieces), Object (key, size, time of the last write), key (path below the root, parts joined by
// "/"). Implementations live in the packages below: local (a directory), mem
// (tests, the demo, crash clones), faulty (a Store that fails on purpose);
// address opens one from what a user typed, and storetest is the conformance
// suite that each of them runs.
//
// Invariants, of every Store:
//
//  1. A reader sees an object wholly old, wholly new or not at all.
//  2. What a write returned nil for is durable and seen by every later call.
//  3. Of concurrent PutIfAbsent calls for one key exactly one returns nil.
//  4. A write that fails with anything but ErrUnknownOutcome left the key as
//     it was; after ErrUnknownOutcome the caller must look.
//  5. No key leads out of the root.
//  6. Of an object that is streamed nothing is to be seen before its Commit.
package objstore
