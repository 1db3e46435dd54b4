package gcs

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"google.golang.org/api/option"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// kinds are the credentials that a file may have in it.
var kinds = []option.CredentialsType{
	option.ServiceAccount, option.AuthorizedUser, option.ImpersonatedServiceAccount, option.ExternalAccount,
}

// kindOf reads the kind of credentials that a file has in it.
func kindOf(file string) (option.CredentialsType, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("open Google Cloud Storage: %w: gcs.credentials_file: %w", ErrOptions, err)
	}
	var content struct {
		Type option.CredentialsType `json:"type"`
	}
	if json.Unmarshal(data, &content) != nil || !slices.Contains(kinds, content.Type) {
		return "", fmt.Errorf("open Google Cloud Storage: %w: gcs.credentials_file %s has no credentials of Google in it (its type is %q): give the JSON file of a service account's key or of a workload identity", ErrOptions, file, attempt.Plain(string(content.Type)))
	}
	return content.Type, nil
}
