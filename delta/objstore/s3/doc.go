// Package s3 is an object store in a bucket of Amazon S3, or of a storage that
// speaks its protocol. It is the home of the AWS SDK,
// which the log store dynamodb shares.
//
// Nouns: Client (an endpoint, credentials, connections), Store (a bucket and a
// prefix), write (an object on its way, and the token it bears), probe (an object
// that shows whether the storage keeps conditions).
//
// Invariants:
//
//  1. What becomes of a failed request is decided in one place, the package
//     attempt, by the verdict of this one. Nothing else makes a request again, the
//     SDK does not.
//  2. A write without a clear answer is looked up before anything is concluded.
//     Each write leaves a random token in the metadata of its object
//     (x-amz-meta-gscd-write); an object that bears it is this write's, whatever
//     the answers said. An object without a token, of another writer or of a
//     storage that drops metadata, is this write's if the bytes are.
//  3. PutIfAbsent is If-None-Match: * on the request that makes the object
//     appear, and is used only after the storage has refused such a request on
//     the probe's key. A storage that does not keep the condition is refused.
//  4. A request that makes no progress for Options.Timeout is given up, and its
//     connection with it: a peer that vanished holds nobody up.
//  5. No error and no name has a secret in it: the text of an error is made
//     here, from its code; the SDK's own text is reached by errors.As only.
//  6. The bodies that are being sent at one time have no more bytes than
//     Options.UploadMemory.
//
// The probe is the object .gscd-conditional-put at the root of the store. It is
// not listed, and no other call takes its key.
//
// Left behind where a process dies in the middle: the parts of an upload, which
// a lifecycle rule AbortIncompleteMultipartUpload of the bucket removes.
//
// A directory bucket (S3 Express One Zone) is refused: it lists in no order.
package s3
