package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/ingest/decode"
)

// apicurioPath is in the addresses of Apicurio's own API.
const apicurioPath = "/apis/registry/v"

// confluentSchema is what Confluent's API says of a schema.
type confluentSchema struct {
	Schema     string      `json:"schema"`
	Type       string      `json:"schemaType"` // none is AVRO
	References []reference `json:"references"`
}

type reference struct {
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// fetch gets a schema and those that it refers to.
func (c *Client) fetch(ctx context.Context, id decode.SchemaID) ([]string, error) {
	if strings.Contains(c.urls[0].Path+"/", apicurioPath) {
		return c.fetchApicurio(ctx, id)
	}
	if id.Kind == decode.GlobalID {
		return nil, &decode.SchemaError{Err: fmt.Errorf("schema_registry.url is that of Confluent's API, which takes no global ids of Apicurio: " +
			"set it to http://HOST:PORT/apis/registry/v3, or set avro.id: content where the ids are of that kind")}
	}
	var s confluentSchema
	if err := c.getJSON(ctx, "/schemas/ids/"+strconv.FormatInt(id.ID, 10), &s); err != nil {
		return nil, err
	}
	f := &follower{c: c, seen: map[reference]bool{}}
	if err := f.follow(ctx, s); err != nil {
		return nil, err
	}
	return f.texts, nil
}

// follower gathers the texts of a schema and of those that it refers to, each
// before the one that needs it.
type follower struct {
	c     *Client
	seen  map[reference]bool
	texts []string
	bytes int
}

func (f *follower) follow(ctx context.Context, s confluentSchema) error {
	if s.Type != "" && s.Type != "AVRO" {
		return fmt.Errorf("%w of Avro: it is of the type %.20s", decode.ErrNoSchema, s.Type)
	}
	for _, ref := range s.References {
		if f.seen[ref] {
			continue
		}
		if f.seen[ref] = true; len(f.seen) > maxReferences {
			return fmt.Errorf("%w that can be read: it refers to more than %d others", decode.ErrNoSchema, maxReferences)
		}
		var other confluentSchema
		path := "/subjects/" + url.PathEscape(ref.Subject) + "/versions/" + strconv.Itoa(ref.Version)
		if err := f.c.getJSON(ctx, path, &other); err != nil {
			return fmt.Errorf("version %d of %.80q, to which it refers: %w", ref.Version, ref.Subject, err)
		}
		if err := f.follow(ctx, other); err != nil {
			return err
		}
	}
	f.texts = append(f.texts, s.Schema)
	if f.bytes += len(s.Schema); f.bytes > maxSchema {
		return fmt.Errorf("%w that can be read: with those that it refers to it is larger than %d bytes", decode.ErrNoSchema, maxSchema)
	}
	return nil
}

// fetchApicurio has the registry put what a schema refers to into it.
func (c *Client) fetchApicurio(ctx context.Context, id decode.SchemaID) ([]string, error) {
	kind := "contentIds"
	if id.Kind == decode.GlobalID {
		kind = "globalIds"
	}
	// Each version of the API has its own word for the same.
	text, err := c.get(ctx, "/ids/"+kind+"/"+strconv.FormatInt(id.ID, 10), "references=DEREFERENCE&dereference=true")
	if err != nil {
		return nil, err
	}
	return []string{string(text)}, nil
}

func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	body, err := c.get(ctx, path, "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &decode.SchemaError{Retryable: true, Err: fmt.Errorf("schema registry: GET %s: the answer is no JSON; is schema_registry.url right? %w", path, err)}
	}
	return nil
}
