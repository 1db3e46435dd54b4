package dynamodb

import (
	"errors"
	"fmt"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

func newService(o attempt.Options, name, table string) *attempt.Service {
	s := &attempt.Service{Options: o, Name: name, Endpoint: "s3.dynamodb_endpoint", Answer: answerOf}
	s.Verdict = func(a attempt.Answer, _ error) attempt.Verdict {
		switch a.Code {
		case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException":
			return attempt.Slower
		}
		return attempt.Open
	}
	s.Taken = func(a attempt.Answer) bool { return a.Code == "ConditionalCheckFailedException" }
	s.Sentence = func(r attempt.Request, a attempt.Answer, err error) string {
		var credentials *attempt.CredentialsError
		if errors.As(err, &credentials) {
			return "the credentials can't be had: set s3.access_key_id and s3.secret_access_key, or mend what gives them: " + attempt.Plain(credentials.Error())
		}
		switch a.Code {
		case "ResourceNotFoundException":
			return fmt.Sprintf("%s has no table %s: create it with the keys tablePath (HASH) and fileName (RANGE), or set s3.dynamodb_table, s3.dynamodb_region", name, table)
		case "AccessDeniedException":
			return fmt.Sprintf("the credentials may not do this: allow %s on the DynamoDB table %s%s", r.Right, table, attempt.Saying(a))
		case "UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignatureException", "MissingAuthenticationTokenException", "InvalidClientTokenId":
			return fmt.Sprintf("%s does not take the credentials: check s3.access_key_id and s3.secret_access_key, the AWS environment and the clock of this machine", name)
		case "ExpiredTokenException", "ExpiredToken":
			return "the session token of the credentials has expired: get a new one (s3.session_token, AWS_SESSION_TOKEN or the profile)"
		case "ValidationException":
			return fmt.Sprintf("%s refuses the item%s: the table %s must have the keys tablePath (HASH) and fileName (RANGE), both text", name, attempt.Saying(a), table)
		case "UnknownError", "":
			if a.Status != 0 && a.Status < 500 {
				return fmt.Sprintf("what answers at %s is no DynamoDB: check s3.dynamodb_endpoint", name)
			}
		}
		return ""
	}
	return s
}

// answerOf reads an error of the SDK.
func answerOf(err error) (a attempt.Answer) {
	var credentials *attempt.CredentialsError
	if errors.As(err, &credentials) {
		return a // another service's
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && response.Response.Response != nil {
		a.Status = response.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		a.Code, a.Message = api.ErrorCode(), api.ErrorMessage()
	}
	var numbered *awshttp.ResponseError
	if errors.As(err, &numbered) {
		a.ID = numbered.RequestID
	}
	return a
}
