package azure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// errNotAzure is the error of an answer that looks well and is none of Azure's.
var errNotAzure = errors.New("no answer of an Azure Blob Storage")

func newService(o attempt.Options) *attempt.Service {
	s := &attempt.Service{Options: o, Name: "Azure Blob Storage", Endpoint: "azure.endpoint", Answer: answerOf}
	s.Verdict = func(a attempt.Answer, _ error) attempt.Verdict {
		if a.Code == "ServerBusy" {
			return attempt.Slower
		}
		return attempt.Open
	}
	s.Missing = func(a attempt.Answer) bool { return a.Code == "BlobNotFound" || a.Code == "ResourceNotFound" }
	s.Taken = func(a attempt.Answer) bool {
		switch a.Code {
		case "BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet", "UnauthorizedBlobOverwrite":
			return true
		case "":
			return a.Status == http.StatusConflict || a.Status == http.StatusPreconditionFailed
		}
		return false
	}
	s.Sentence = wording{s}.sentence
	return s
}

// answerOf reads an error of the SDK.
func answerOf(err error) attempt.Answer {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return attempt.Answer{}
	}
	a := attempt.Answer{Status: response.StatusCode, Code: response.ErrorCode}
	if response.RawResponse == nil {
		return a
	}
	a.ID = response.RawResponse.Header.Get("X-Ms-Request-Id")
	body, readErr := runtime.Payload(response.RawResponse)
	var said struct {
		Message string `xml:"Message"`
	}
	if readErr == nil && xml.Unmarshal(body, &said) == nil {
		a.Message, _, _ = strings.Cut(said.Message, "\n") // the request's number and time follow
	}
	return a
}

// wording words what Azure Blob Storage answers.
type wording struct{ *attempt.Service }

func (s wording) sentence(r attempt.Request, a attempt.Answer, err error) string {
	container := containerOf(r.Store)
	var credentials *attempt.CredentialsError
	switch {
	case errors.Is(err, errNotAzure), errors.Is(err, io.EOF) && a.Status == 0 && strings.Contains(err.Error(), "XML"):
		return s.notAzure()
	case errors.As(err, &credentials):
		return "there is no login: set azure.account_key or azure.sas_token, AZURE_CLIENT_ID and its kin, run az login, or give the machine an identity: " + attempt.Plain(firstLine(credentials.Error()))
	}
	code := a.Code
	if code == "AuthorizationFailure" && strings.HasPrefix(a.Message, "Server failed to authenticate") {
		code = "AuthenticationFailed" // some services mix them up
	}
	switch code {
	case "ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled":
		return fmt.Sprintf("%s has no container %s: create it, or mend the address of the table", s.Name, container)
	case "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation":
		return fmt.Sprintf("%s does not take the login: check azure.account_key or azure.sas_token (it may have expired), the login of the environment, and the clock of this machine%s", s.Name, attempt.Saying(a))
	case "AuthorizationFailure", "AuthorizationPermissionMismatch", "AuthorizationProtocolMismatch", "AuthorizationSourceIPMismatch",
		"AuthorizationServiceMismatch", "AuthorizationResourceTypeMismatch", "InsufficientAccountPermissions", "PublicAccessNotPermitted",
		"KeyBasedAuthenticationNotPermitted", "UnauthorizedBlobOverwrite":
		return fmt.Sprintf("the login may not do this: allow it to %s in the container %s, by the role Storage Blob Data Contributor, the permissions of the signature, and the network rules of the account%s", r.Right, container, attempt.Saying(a))
	case "AccountIsDisabled":
		return fmt.Sprintf("%s is disabled: enable it in the portal", s.Name)
	case "BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold":
		return "a policy of the container keeps the blob as it is: a table needs to replace and remove files, take it off"
	case "BlobArchived", "BlobBeingRehydrated":
		return "the blob was moved to the archive: rehydrate it, and take the table's folder out of the rule that did it"
	case "LeaseIdMissing":
		return "somebody holds a lease on the blob: break it"
	case "InvalidHeaderValue", "InvalidQueryParameterValue", "UnsupportedHeader", "UnsupportedQueryParameter":
		return fmt.Sprintf("%s does not know this version of the protocol%s: use a newer one", s.Name, attempt.Saying(a))
	}
	switch {
	case a.Status == http.StatusNotFound && a.Code == "", a.Status >= 300 && a.Status < 400, a.Status != 0 && a.Status < 300:
		return s.notAzure()
	case a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the login may not do this: allow it to %s in the container %s%s%s", r.Right, container, attempt.Saying(a), attempt.Reference(a))
	}
	return ""
}

func (s wording) notAzure() string {
	return fmt.Sprintf("what answers at %s is no Azure Blob Storage: check azure.endpoint", s.Name)
}

func containerOf(store string) string {
	_, rest, _ := strings.Cut(store, "://")
	name, _, _ := strings.Cut(rest, "/")
	name, _, _ = strings.Cut(name, "@")
	return name
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
