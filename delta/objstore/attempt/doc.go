// Package attempt makes the requests of a storage that is reached over HTTP
// until they are answered: what is asked again and when, which write may have
// had its effect, and how a failure is told. The stores s3, gcs, azure and
// dynamodb are built on it.
//
// Nouns: Service (who is asked, and how its errors are read), Request (what is
// asked for), Answer (what the service said of a failure), Verdict (what that says
// about asking again), Owner (whose the object of a write is), Transport (gives up
// requests that make no progress).
//
// Invariants:
//
//  1. What becomes of a failed request is decided by one function, decide. The
//     SDKs are told to make no request again.
//  2. Settle returns an error that is not ErrUnknownOutcome only where the write
//     is known to have had no effect, and nil only where it is known to have had it.
//  3. The text of an error is made here or by the service's Sentence or Word, in
//     one line; the SDK's own text, which may have a signature in it, is reached by
//     errors.As only.
package attempt
