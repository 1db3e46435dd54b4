package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gscd-io/gscd/ingest/change"
)

// What the brokers may answer about a topic.
var (
	// ErrNoTopic: a topic is not there.
	ErrNoTopic = errors.New("the topic does not exist: create it, or correct the table's topics")
	// ErrTopicRecreated is what every TopicRecreatedError is.
	ErrTopicRecreated = change.ErrTopicRecreated
)

// withRight says of an answer of the brokers that refuses access what is to be
// granted; other errors stay as they are.
func withRight(err error) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("the right READ on the topic is missing: grant it to gscd's user: %w", err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("the right READ on the group is missing: grant it to gscd's user, or leave out kafka.group: %w", err)
	}
	return err
}

// ErrClosed is what a closed Consumer answers.
var ErrClosed = errors.New("the consumer is closed")

// TopicRecreatedError says that a topic has another ID than the one that the
// offsets belong to: its offsets count from zero again.
type TopicRecreatedError struct {
	Topic, Old, New string
}

func (e *TopicRecreatedError) Error() string {
	return fmt.Sprintf("topic %s: %v: the offsets belong to topic ID %s, now it is %s; load the table again, or accept the loss with on_lost_offsets: continue",
		e.Topic, ErrTopicRecreated, e.Old, e.New)
}

// Is makes errors.Is(err, ErrTopicRecreated) true.
func (e *TopicRecreatedError) Is(target error) bool { return target == ErrTopicRecreated }

// BatchTooLargeError says that a batch of records unpacks to more than can be
// held in memory: 2 GiB.
type BatchTooLargeError struct {
	ID change.PartitionID
	// From and Next are the batch's first offset and the one behind its last.
	From, Next int64
	err        error
}

func (e *BatchTooLargeError) Error() string {
	return fmt.Sprintf("topic %s partition %d: the batch of offsets %d to %d unpacks to more than 2 GiB and can't be read; `gscd offsets set` skips it: %v",
		e.ID.Topic, e.ID.Partition, e.From, e.Next-1, e.err)
}

// Unwrap gives the library's error.
func (e *BatchTooLargeError) Unwrap() error { return e.err }

// Classify tells whether it makes sense to go on trying after err, and why.
// It is the one place that decides this for errors of this package; nil and
// unknown errors included.
func Classify(err error) (retryable bool, reason string) {
	var (
		code    *kerr.Error
		eof     *kgo.ErrFirstReadEOF
		tooBig  *BatchTooLargeError
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		alert   *net.OpError
		dns     *net.DNSError
		network net.Error
	)
	switch {
	case err == nil:
		return false, "no error"
	// What is gone does not come back, and a person has to decide.
	case len(change.LostOffsets(err)) > 0:
		return false, "offsets are lost"
	case errors.Is(err, ErrTopicRecreated):
		return false, "the topic was created again"
	case errors.Is(err, ErrNoTopic):
		return false, "the topic does not exist"
	case errors.Is(err, errBackwards):
		return false, "records were left out"
	case errors.Is(err, ErrReplaced), errors.Is(err, ErrGroupInUse):
		return false, "the group refuses"
	case errors.As(err, &tooBig):
		return false, "a batch is too large"
	case errors.Is(err, ErrClosed), errors.Is(err, kgo.ErrClientClosed):
		return false, "closed"
	case errors.Is(err, context.Canceled):
		return false, "stopped"
	// The brokers know us or they don't: asking again gives the same answer,
	// and may lock the account.
	case isAuth(err):
		return false, "the credentials or their rights do not suffice"
	case errors.Is(err, ErrCredentials):
		return false, "the credentials can't be read"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return false, "the broker's certificate has expired, or the clock of this machine is wrong"
	case errors.As(err, &verify), errors.As(err, &unknown):
		return false, "the broker's certificate is not trusted"
	case errors.As(err, &alert) && alert.Op == "remote error":
		return false, "the broker refuses the TLS connection"
	// The brokers' own judgement.
	case errors.Is(err, kerr.UnknownServerError):
		return true, "the broker failed"
	case errors.As(err, &code):
		if kerr.IsRetriable(code) {
			return true, "the broker asks to try again"
		}
		return false, "the broker refuses"
	// From here on the network. A broker that starts or stops looks like a
	// wrong port, so all of it is tried again.
	case errors.As(err, &eof):
		return true, "the broker closed the connection at once: is TLS or SASL wanted?"
	case errors.As(err, &dns):
		return true, "the broker's name is not known"
	case errors.Is(err, context.DeadlineExceeded):
		return true, "no answer in time"
	case errors.Is(err, io.ErrUnexpectedEOF):
		// Kafka's answer to a client that does not speak TLS is a TLS alert.
		return true, "the connection broke off within an answer: is TLS wanted?"
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), kgo.IsRetryableBrokerErr(err):
		return true, "the network"
	}
	// What we have not met may be a broker in between two states, or bytes
	// damaged on the way: trying again costs a log line, stopping costs a night.
	return true, "unexpected"
}

// Answered tells that err is what a broker said, not that none was reached.
func Answered(err error) bool {
	var code *kerr.Error
	return errors.As(err, &code)
}

func isAuth(err error) bool {
	for _, e := range []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState,
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
