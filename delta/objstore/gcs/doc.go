// Package gcs is an object store in a bucket of Google Cloud Storage. It is the
// home of Google's SDK.
//
// The SDK is google.golang.org/api/storage/v1, Google's client of the JSON API,
// on which the HTTP side of cloud.google.com/go/storage is built too. The latter
// brings gRPC and xDS along: 26 MB more in the binary and half a minute more in a
// build, for calls that are not made here.
//
// Nouns: Client (credentials and connections), Store (a bucket and a prefix),
// token (metadata that tells whose write an object is), generation (Google's
// number of an object's content; 0 is an object that is not there).
//
// Invariants:
//
//  1. PutIfAbsent is ifGenerationMatch=0 on the one request that makes the
//     object appear.
//  2. A write without a clear answer is looked up before anything is concluded:
//     each leaves a random token in its object's metadata (gscd-write). An object
//     without one is this write's if its bytes are.
//  3. Every object is sent with its CRC-32C, or compared with it after an upload
//     in pieces, and compared with it when it is read whole.
//  4. Requests are made again by package attempt only.
//  5. No error and no name has a secret in it.
package gcs
