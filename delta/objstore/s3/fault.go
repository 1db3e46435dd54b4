package s3

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// word words the error of a request: what was asked for, where, and what to do.
func (s *Store) word(r attempt.Request, err error) error {
	status, code := answerOf(err)
	if notThere(r, status, code) {
		return attempt.NotExist(r, err)
	}
	var wraps []error
	if s.mayPass(err) {
		wraps = append(wraps, objstore.ErrTemporary)
	}
	var credentials *credentialsError
	if !errors.As(err, &credentials) || len(wraps) > 0 {
		wraps = append(wraps, err) // else the network is not what has to be mended
	}
	return attempt.Worded(fmt.Sprintf("%s in %s: %s", r, s, s.sentence(r, err, status, code)), wraps...)
}

// mayPass tells whether the same request may succeed at another time.
func (s *Store) mayPass(err error) bool {
	var credentials *credentialsError
	if errors.As(err, &credentials) {
		return passing(credentials.Err)
	}
	if attempt.GivenUp(err) {
		return false
	}
	switch status, code := answerOf(err); {
	case status == 0 && code == "":
		return attempt.Passing(err)
	case unanswered(err, code):
		return true
	case expired(code):
		return true // at another time there are new ones
	}
	return s.service.MayRepeat(err)
}

// notThere: there is no object of the key. A HEAD has no code, only a status.
func notThere(r attempt.Request, status int, code string) bool {
	return (r.Op == "get" || r.Op == opSetClass) && code == "NoSuchKey" ||
		r.Op == "head" && status == http.StatusNotFound && (code == "NoSuchKey" || code == "NotFound")
}

// sentence says what happened and what to do about it.
func (s *Store) sentence(r attempt.Request, err error, status int, code string) string {
	where := s.client.endpoint
	var credentials *credentialsError
	switch {
	case attempt.GivenUp(err):
		return err.Error()
	case errors.As(err, &credentials):
		return credentialsSentence(credentials)
	case unanswered(err, code):
		return s.unanswered(err)
	}
	switch code {
	case "NoSuchBucket":
		return fmt.Sprintf("%s has no bucket %s: create it, or mend the address of the table", where, s.bucket)
	case "InvalidBucketName":
		return fmt.Sprintf("%q can't be the name of a bucket: mend the address of the table", s.bucket)
	case "InvalidAccessKeyId", "XAdminUserNotFound":
		return where + " does not know the access key: check s3.access_key_id, AWS_ACCESS_KEY_ID or the profile"
	case "SignatureDoesNotMatch":
		return "the secret key is not that of the access key: check s3.secret_access_key, AWS_SECRET_ACCESS_KEY or the profile"
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture":
		return "the clock of this machine is wrong" + skew(err) + ": set it (NTP), gscd goes by it too"
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return "the session token of the credentials has expired: get a new one (s3.session_token, AWS_SESSION_TOKEN or the profile)"
	case "InvalidToken", "InvalidTokenId", "InvalidSecurity":
		return "the session token does not belong to the credentials: check s3.session_token, AWS_SESSION_TOKEN or the profile"
	case "InvalidObjectState":
		return "the object was moved to an archive: restore it, and take the table's folder out of the lifecycle rule that did it"
	case "KMS.NotFoundException", "KMS.DisabledException", "KMS.KMSInvalidStateException", "KMS.InvalidStateException":
		return "the KMS key can't be used: check s3.encryption.key_id, and that the key is enabled and in the bucket's region" + saying(err)
	case "NotImplemented":
		return where + " can't do this (" + code + "): use a storage that has " + r.Right + " as Amazon S3 does"
	case "EntityTooLarge":
		return "the object is larger than " + where + " takes" + saying(err)
	case "QuotaExceeded", "InsufficientStorage", "XMinioStorageFull":
		return where + " is full: free space, or raise the quota"
	}
	if region := otherRegion(err, status, code); region != "" {
		return fmt.Sprintf("the bucket is in %s, not where it was asked for (%s): set s3.region, or AWS_REGION", region, s.client.api.Options().Region)
	}
	switch {
	case status == http.StatusForbidden || code == "AccessDenied" || code == "AllAccessDisabled":
		return s.denied(r, err)
	case status >= 200 && status < 300 && code == "", notS3(err, status, code):
		return notS3Sentence(where)
	case s.mayPass(err) && s.client.opts.Attempts > 1:
		return fmt.Sprintf("%s answers %s, %d times: look after the storage, or try again later%s", where, named(status, code), s.client.opts.Attempts, reference(err))
	}
	if strings.HasPrefix(code, "KMS.") {
		return fmt.Sprintf("KMS refuses the key with %s: check s3.encryption.key_id, and that kms:GenerateDataKey and kms:Decrypt are allowed on it%s%s", code, saying(err), reference(err))
	}
	return fmt.Sprintf("%s refuses it with %s%s%s", where, named(status, code), saying(err), reference(err))
}

// unanswered: there is no answer, or one that broke off.
func unanswered(err error, code string) bool {
	status, _ := answerOf(err)
	return code == "" && (status == 0 || status < 300 && attempt.BrokeOff(err))
}

// unanswered words the want of an answer.
func (s *Store) unanswered(err error) string {
	where := s.client.endpoint
	var name *net.DNSError
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.Is(err, errNotS3):
		return notS3Sentence(where)
	case errors.As(err, &name) && name.IsNotFound && strings.HasPrefix(name.Name, s.bucket+"."):
		return fmt.Sprintf("the host %s is not known: set s3.path_style, for the bucket is not part of a host name at %s, or check s3.endpoint", name.Name, where)
	case errors.As(err, &name):
		return fmt.Sprintf("the host %s can't be looked up: check s3.endpoint, s3.region and the network", name.Name)
	case errors.As(err, &host):
		return fmt.Sprintf("the certificate of %s is for another name: check s3.endpoint, or set s3.path_style", where)
	case errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Sprintf("the certificate of %s is not to be trusted: have s3.ca_file, or AWS_CA_BUNDLE, name the PEM file of its authority", where)
	case errors.Is(err, errWantsTLS):
		return where + " speaks TLS: write https:// in s3.endpoint"
	case errors.Is(err, http.ErrSchemeMismatch):
		return where + " speaks no TLS: write http:// in s3.endpoint"
	case errors.Is(err, attempt.ErrStalled):
		return fmt.Sprintf("%s answered nothing for %s: check the storage and the network", where, s.client.opts.Timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return where + " refuses connections: check that the storage runs, and s3.endpoint"
	case errors.As(err, &network) && network.Op == "dial":
		return where + " can't be reached: check s3.endpoint and the network"
	case attempt.BrokeOff(err):
		return "the connection to " + where + " broke off: check the storage and the network"
	}
	if strings.Contains(err.Error(), "checksum did not match") { // the SDK's type has no name
		return "what came has another checksum than what was stored: check the storage's disks, and what lies between"
	}
	return "the request could not be made: " + attempt.Plain(err.Error())
}

// denied names what a policy has to allow.
func (s *Store) denied(r attempt.Request, err error) string {
	what := r.Right
	if r.Op == "get" || r.Op == "head" {
		// Without the right to list, an object that is not there is denied too.
		what += " and s3:ListBucket"
	}
	return fmt.Sprintf("the credentials may not do this: allow %s on the bucket %s in the policies of user, role and bucket%s%s", what, s.bucket, saying(err), reference(err))
}

func credentialsSentence(e *credentialsError) string {
	var operation *smithy.OperationError
	if errors.As(e, &operation) && operation.Service() == "ec2imds" {
		return "there are no credentials: set s3.access_key_id and s3.secret_access_key, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role"
	}
	if _, code := answerOf(e.Err); code == "ExpiredTokenException" || code == "ExpiredToken" {
		return "the web identity token has expired: have it written anew (AWS_WEB_IDENTITY_TOKEN_FILE)"
	}
	return "the credentials can't be had: mend what gives them: " + attempt.Plain(e.Error())
}

// skew is by how much the clock is off, from the time of the answer.
func skew(err error) string {
	var response *smithyhttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil {
		return ""
	}
	theirs, parsed := http.ParseTime(response.Response.Header.Get("Date"))
	if parsed != nil {
		return ""
	}
	off := time.Since(theirs).Round(time.Second)
	if off.Abs() < time.Minute {
		return "" // put right meanwhile, or the date is a proxy's
	}
	if off < 0 {
		return fmt.Sprintf(", slow by %s", -off)
	}
	return fmt.Sprintf(", fast by %s", off)
}

var expectedRegion = regexp.MustCompile(`expecting ['"]([a-z0-9-]+)['"]`)

// otherRegion is where the bucket is, where the answer says that it is elsewhere.
func otherRegion(err error, status int, code string) string {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && status >= 300 && status < 500 && status != http.StatusForbidden {
		if region := response.Response.Header.Get("X-Amz-Bucket-Region"); region != "" && (status < 404 || code == "") {
			return attempt.Plain(region)
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		if m := expectedRegion.FindStringSubmatch(api.ErrorMessage()); m != nil {
			return m[1]
		}
	}
	switch {
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect,
		code == "PermanentRedirect", code == "AuthorizationHeaderMalformed", code == "IllegalLocationConstraintException", code == "IncorrectEndpoint":
		return "another region"
	}
	return ""
}

// errNotS3 is the error of an answer that looks well and is none of S3's.
var errNotS3 = errors.New("no answer of an S3 storage")

// notS3: the answer is none of S3's. What has no code was given one by the SDK.
func notS3(err error, status int, code string) bool {
	var broken *smithy.DeserializationError
	return errors.As(err, &broken) || status == http.StatusNotFound && (code == "" || code == "UnknownError" || code == "NotFound")
}

func notS3Sentence(where string) string {
	return fmt.Sprintf("what answers at %s is no S3 storage: check s3.endpoint", where)
}

// named, saying and reference are attempt's, of an error of the SDK.
func named(status int, code string) string {
	return attempt.Named(attempt.Answer{Status: status, Code: code})
}

func saying(err error) string {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return ""
	}
	return attempt.Saying(attempt.Answer{Message: api.ErrorMessage()})
}

func reference(err error) string {
	var response *awshttp.ResponseError
	if !errors.As(err, &response) {
		return ""
	}
	return attempt.Reference(attempt.Answer{ID: response.RequestID})
}
