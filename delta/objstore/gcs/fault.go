package gcs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// errNotGCS is the error of an answer that looks well and is none of Google's.
var errNotGCS = errors.New("no answer of a Google Cloud Storage")

func newService(o attempt.Options) *attempt.Service {
	s := &attempt.Service{Options: o, Name: "Google Cloud Storage", Endpoint: "gcs.endpoint", Answer: answerOf}
	s.Verdict = func(a attempt.Answer, _ error) attempt.Verdict {
		if busy(a) {
			return attempt.Slower
		}
		return attempt.Open
	}
	s.Missing = func(a attempt.Answer) bool { return a.Status == http.StatusNotFound && !noBucket(a) && a.Message != "" }
	s.Taken = func(a attempt.Answer) bool { return a.Status == http.StatusPreconditionFailed }
	s.Sentence = wording{s}.sentence
	return s
}

// wording words what Google Cloud Storage answers.
type wording struct{ *attempt.Service }

func (s wording) sentence(r attempt.Request, a attempt.Answer, err error) string {
	bucket, _, _ := strings.Cut(strings.TrimPrefix(r.Store, "gs://"), "/")
	var credentials *attempt.CredentialsError
	switch {
	case errors.Is(err, errNotGCS):
		return s.notGCS()
	case errors.As(err, &credentials):
		return "no token is to be had with the credentials: check gcs.credentials_file, GOOGLE_APPLICATION_CREDENTIALS and the clock of this machine: " + attempt.Plain(credentials.Error())
	case noBucket(a), a.Status == http.StatusNotFound && a.Message != "" && (r.Op == "put" || r.Op == "list"):
		return fmt.Sprintf("%s has no bucket %s: create it, or mend the address of the table", s.Name, bucket)
	case a.Status == http.StatusUnauthorized:
		return fmt.Sprintf("%s does not take the credentials: check gcs.credentials_file or GOOGLE_APPLICATION_CREDENTIALS%s", s.Name, attempt.Saying(a))
	case a.Code == "accountDisabled" || a.Code == "userProjectAccountProblem" || a.Code == "projectAccountClosed":
		return "the project's billing account is closed or disabled: mend it in the console" + attempt.Saying(a)
	case a.Status == http.StatusForbidden && !busy(a):
		return fmt.Sprintf("the credentials may not do this: grant %s on the bucket %s, for example by the role Storage Object User%s", r.Right, bucket, attempt.Saying(a))
	case a.Code == "retentionPolicyNotMet" || a.Code == "objectUnderActiveHold":
		return "a retention policy or a hold of the bucket keeps the object: a table needs to replace and remove files, take it off" + attempt.Saying(a)
	case a.Status == http.StatusNotFound, a.Status >= 300 && a.Status < 400:
		return s.notGCS()
	}
	return ""
}

func (s wording) notGCS() string {
	return fmt.Sprintf("what answers at %s is no Google Cloud Storage: check gcs.endpoint", s.Name)
}

func busy(a attempt.Answer) bool {
	return a.Code == "rateLimitExceeded" || a.Code == "userRateLimitExceeded"
}

// noBucket tells the want of a bucket from that of an object: both are "notFound".
func noBucket(a attempt.Answer) bool {
	return a.Status == http.StatusNotFound && strings.Contains(strings.ToLower(a.Message), "bucket does not exist")
}

func isNotExist(err error) bool { return errors.Is(err, objstore.ErrNotExist) }
