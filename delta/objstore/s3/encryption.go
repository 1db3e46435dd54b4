package s3

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Encryption is how the storage is told to encrypt what is written to it (SSE). The
// zero value asks for nothing: the bucket's default holds. Reading needs no setting.
type Encryption struct {
	// Type is "", AES256 (SSE-S3), aws:kms (SSE-KMS) or aws:kms:dsse (twice, SSE-KMS).
	Type string
	// KeyID names the KMS key by its id, ARN or alias; "" is the account's own for S3.
	KeyID string
	// BucketKey lets S3 derive object keys from one of the bucket, which spares requests
	// to KMS. Of aws:kms alone.
	BucketKey bool
}

// EncryptionTypes are what Encryption.Type may be, beside "".
var EncryptionTypes = []string{
	string(types.ServerSideEncryptionAes256), string(types.ServerSideEncryptionAwsKms), string(types.ServerSideEncryptionAwsKmsDsse),
}

func (e Encryption) check() error {
	kms := strings.HasPrefix(e.Type, string(types.ServerSideEncryptionAwsKms))
	switch {
	case e.Type != "" && !slices.Contains(EncryptionTypes, e.Type):
		return fmt.Errorf("%w: s3.encryption.type %q is unknown: write %s", ErrOptions, e.Type, strings.Join(EncryptionTypes, ", "))
	case e.KeyID != "" && !kms:
		return fmt.Errorf("%w: s3.encryption.key_id belongs to the type aws:kms", ErrOptions)
	case e.BucketKey && e.Type != string(types.ServerSideEncryptionAwsKms):
		return fmt.Errorf("%w: s3.encryption.bucket_key belongs to the type aws:kms", ErrOptions)
	}
	return nil
}

// sse, key and bucketKey are the fields of the requests that begin an object: a put, an
// upload in parts, a copy. The parts and the end of an upload carry none of them.
func (e Encryption) sse() types.ServerSideEncryption { return types.ServerSideEncryption(e.Type) }

func (e Encryption) key() *string {
	if e.KeyID == "" {
		return nil
	}
	return &e.KeyID
}

func (e Encryption) bucketKey() *bool {
	if !e.BucketKey {
		return nil
	}
	return aws.Bool(true)
}
