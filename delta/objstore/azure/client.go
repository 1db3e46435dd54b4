package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// ErrOptions is wrapped by errors about options, a container or a prefix that can't be right.
var ErrOptions = errors.New("not the settings of an Azure Blob Storage")

// Options say how an account is reached. With neither key, signature nor
// Anonymous, it is logged in to with what the environment says: AZURE_CLIENT_ID
// and its kin, a workload identity, the identity of the machine, az login.
type Options struct {
	// Account is the name of the storage account.
	Account string
	// Endpoint is the URL of an account that is not in Azure's public cloud, or of
	// an emulator: https://HOST[:PORT][/ACCOUNT]. Default: https://ACCOUNT.blob.core.windows.net.
	Endpoint string
	// AccountKey is one of the account's two keys, SASToken a shared access
	// signature of account or container, without its question mark.
	AccountKey string `json:"-"`
	SASToken   string `json:"-"`
	// Anonymous sends requests without credentials.
	Anonymous bool
	attempt.Options
}

// String leaves out the secrets.
func (o Options) String() string {
	return fmt.Sprintf("account %q, endpoint %q", o.Account, o.Endpoint)
}

// GoString is String: %#v must not print secrets either.
func (o Options) GoString() string { return o.String() }

// Client reaches one account with one set of credentials. Its stores share
// connections. It is safe for concurrent use.
type Client struct {
	opts    Options
	service *attempt.Service
	// open makes the SDK's client of a container.
	open func(url string, o *container.ClientOptions) (*container.Client, error)
	sdk  azcore.ClientOptions
}

// NewClient makes a client. It asks the storage nothing. The error wraps
// ErrOptions where an option is at fault.
func NewClient(o Options) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("open Azure storage: %w", err)
	}
	return c, nil
}

func newClient(o Options) (*Client, error) {
	o.Options = o.Options.WithDefaults()
	o.SASToken = strings.TrimPrefix(o.SASToken, "?")
	if o.Account == "" || strings.Trim(o.Account, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return nil, fmt.Errorf("%w: %q is no name of an account: set azure.account, or write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH", ErrOptions, o.Account)
	}
	given := 0
	for _, set := range []bool{o.AccountKey != "", o.SASToken != "", o.Anonymous} {
		if set {
			given++
		}
	}
	if given > 1 {
		return nil, fmt.Errorf("%w: azure.account_key, azure.sas_token and azure.anonymous exclude each other", ErrOptions)
	}
	c := &Client{service: newService(o.Options)}
	if o.Endpoint == "" {
		o.Endpoint = "https://" + o.Account + ".blob.core.windows.net"
		c.service.Name, c.service.Endpoint = "the account "+o.Account, "azure.account"
	} else {
		u, err := url.Parse(o.Endpoint)
		switch {
		case strings.Contains(o.Endpoint, "@"), err == nil && u.RawQuery != "":
			return nil, fmt.Errorf("%w: the endpoint has a login or a signature in it, which would be printed: use azure.account_key or azure.sas_token", ErrOptions)
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Fragment != "":
			return nil, fmt.Errorf("%w: the endpoint %q is no URL: write http://HOST:PORT/ACCOUNT or https://HOST", ErrOptions, o.Endpoint)
		}
		o.Endpoint = strings.TrimRight(o.Endpoint, "/")
		c.service.Name = o.Endpoint
	}
	c.opts = o
	c.sdk = azcore.ClientOptions{
		InsecureAllowCredentialWithHTTP: strings.HasPrefix(o.Endpoint, "http://"),
		Retry:                           policy.RetryOptions{MaxRetries: -1},
		Telemetry:                       policy.TelemetryOptions{Disabled: true},
		Transport:                       attempt.NewClient(o.NewTransport()),
	}
	return c, c.login(o)
}

// login decides how containers are opened.
func (c *Client) login(o Options) error {
	switch {
	case o.AccountKey != "":
		if _, err := base64.StdEncoding.DecodeString(o.AccountKey); err != nil {
			return fmt.Errorf("%w: azure.account_key is no key of an account: it is a text in base64", ErrOptions)
		}
		key, err := container.NewSharedKeyCredential(o.Account, o.AccountKey)
		if err != nil {
			return fmt.Errorf("%w: azure.account_key can't be used", ErrOptions)
		}
		c.open = func(url string, o *container.ClientOptions) (*container.Client, error) {
			return container.NewClientWithSharedKeyCredential(url, key, o)
		}
	case o.SASToken != "":
		if _, err := url.ParseQuery(o.SASToken); err != nil || !strings.Contains(o.SASToken, "sig=") {
			return fmt.Errorf("%w: azure.sas_token is no shared access signature: it looks like sv=…&sig=…", ErrOptions)
		}
		c.open = func(url string, options *container.ClientOptions) (*container.Client, error) {
			return container.NewClientWithNoCredential(url+"?"+o.SASToken, options)
		}
	case o.Anonymous:
		c.open = container.NewClientWithNoCredential
	default:
		login, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return fmt.Errorf("%w: there are no credentials: %s", ErrOptions, attempt.Plain(err.Error()))
		}
		c.open = func(url string, o *container.ClientOptions) (*container.Client, error) {
			return container.NewClient(url, identity{login}, o)
		}
	}
	return nil
}

// identity tells an error of the login from one of the storage.
type identity struct{ azcore.TokenCredential }

// GetToken implements azcore.TokenCredential.
func (i identity) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := i.TokenCredential.GetToken(ctx, o)
	if err != nil {
		err = &attempt.CredentialsError{Err: err}
	}
	return token, err
}

// Store makes the store of a folder of a container; prefix "" is the whole container.
func (c *Client) Store(name, prefix string) (*Store, error) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-$") != "" {
		return nil, fmt.Errorf("open Azure storage: %w: %q is no name of a container (small letters, digits and dashes): write az://CONTAINER/PATH", ErrOptions, name)
	}
	prefix = strings.Trim(prefix, "/")
	if prefix != "" {
		if err := checkKey(prefix); err != nil {
			return nil, fmt.Errorf("open Azure storage: %w: the folder in the container: %w", ErrOptions, err)
		}
		prefix += "/"
	}
	api, err := c.open(c.opts.Endpoint+"/"+name, &container.ClientOptions{ClientOptions: c.sdk})
	if err != nil {
		return nil, fmt.Errorf("open Azure storage: %w: %s", ErrOptions, attempt.Plain(withoutURL(err).Error()))
	}
	s := &Store{service: c.service, api: api, container: name, prefix: prefix}
	s.name = strings.TrimSuffix("az://"+name+"/"+prefix, "/")
	if account, ok := strings.CutSuffix(c.opts.Endpoint, ".blob.core.windows.net"); ok {
		s.name = strings.TrimSuffix("abfss://"+name+"@"+strings.TrimPrefix(account, "https://")+".dfs.core.windows.net/"+prefix, "/")
	}
	return s, nil
}

// Open makes a store of its own client. Nothing of the storage is read or created.
func Open(name, prefix string, o Options) (*Store, error) {
	c, err := NewClient(o)
	if err != nil {
		return nil, err
	}
	return c.Store(name, prefix)
}

// withoutURL is an error without the URL that was asked for: a signature may be in it.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// checkKey refuses what is no key, and the names that Azure would change.
func checkKey(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if strings.Contains(key, `\`) || strings.HasSuffix(key, ".") || strings.Contains(key, "./") {
		return fmt.Errorf("%w: %q has a backslash or a part that ends in a dot, which Azure would change", objstore.ErrKey, key)
	}
	return nil
}
