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

// fetch gets a schema and those that it refers to.
func (c *Client) fetch(ctx context.Context, id decode.SchemaID) ([]string, error) {
	api := api(confluent{c})
	if path := c.urls[0].Path; strings.Contains(path, apicurioPath) {
		api = apicurio{c, strings.HasSuffix(path, apicurioPath+"2")}
	}
	s, err := api.byID(ctx, id)
	if err != nil {
		return nil, err
	}
	f := &follower{api: api, seen: map[reference]bool{}}
	if err := f.follow(ctx, s); err != nil {
		return nil, err
	}
	return f.texts, nil
}

// api is a way to ask for schemas.
type api interface {
	byID(ctx context.Context, id decode.SchemaID) (schema, error)
	byName(ctx context.Context, ref reference) (schema, error)
}

// schema is one answer; what it refers to is not in it.
type schema struct {
	text       string
	kind       string // "" is AVRO
	references []reference
}

// reference is a version of a subject, or of an artifact in a group.
type reference struct{ group, name, version string }

// follower gathers the texts of a schema and of those that it refers to, each
// before the one that needs it.
type follower struct {
	api   api
	seen  map[reference]bool
	texts []string
	bytes int
}

func (f *follower) follow(ctx context.Context, s schema) error {
	if s.kind != "" && s.kind != "AVRO" {
		return fmt.Errorf("%w of Avro: it is of the type %.20s", decode.ErrNoSchema, s.kind)
	}
	for _, ref := range s.references {
		if f.seen[ref] {
			continue
		}
		if f.seen[ref] = true; len(f.seen) > maxReferences {
			return fmt.Errorf("%w that can be read: it refers to more than %d others", decode.ErrNoSchema, maxReferences)
		}
		other, err := f.api.byName(ctx, ref)
		if err != nil {
			return fmt.Errorf("version %.20s of %.80q, to which it refers: %w", ref.version, ref.name, err)
		}
		if err := f.follow(ctx, other); err != nil {
			return err
		}
	}
	f.texts = append(f.texts, s.text)
	if f.bytes += len(s.text); f.bytes > maxSchema {
		return fmt.Errorf("%w that can be read: with those that it refers to it is larger than %d bytes", decode.ErrNoSchema, maxSchema)
	}
	return nil
}

// confluent is Confluent's API: an answer has all of a schema.
type confluent struct{ c *Client }

func (a confluent) byID(ctx context.Context, id decode.SchemaID) (schema, error) {
	if id.Kind == decode.GlobalID {
		return schema{}, &decode.SchemaError{Err: fmt.Errorf("schema_registry.url is that of Confluent's API, which takes no global ids of Apicurio: " +
			"set it to http://HOST:PORT/apis/registry/v3, or set avro.id: content where the ids are of that kind")}
	}
	return a.get(ctx, "/schemas/ids/"+strconv.FormatInt(id.ID, 10))
}

func (a confluent) byName(ctx context.Context, ref reference) (schema, error) {
	return a.get(ctx, "/subjects/"+url.PathEscape(ref.name)+"/versions/"+url.PathEscape(ref.version))
}

func (a confluent) get(ctx context.Context, path string) (s schema, err error) {
	var answer struct {
		Schema     string `json:"schema"`
		Type       string `json:"schemaType"`
		References []struct {
			Subject string `json:"subject"`
			Version int    `json:"version"`
		} `json:"references"`
	}
	if err := a.c.getJSON(ctx, path, &answer); err != nil {
		return s, err
	}
	s.text, s.kind = answer.Schema, answer.Type
	for _, r := range answer.References {
		s.references = append(s.references, reference{name: r.Subject, version: strconv.Itoa(r.Version)})
	}
	return s, nil
}

// apicurio is Apicurio's own API: text and references are asked for one by one.
type apicurio struct {
	c      *Client
	second bool // version 2
}

func (a apicurio) byID(ctx context.Context, id decode.SchemaID) (schema, error) {
	kind := "contentIds"
	if id.Kind == decode.GlobalID {
		kind = "globalIds"
	}
	path := "/ids/" + kind + "/" + strconv.FormatInt(id.ID, 10)
	return a.get(ctx, path, path)
}

func (a apicurio) byName(ctx context.Context, ref reference) (schema, error) {
	path := "/groups/" + url.PathEscape(ref.group) + "/artifacts/" + url.PathEscape(ref.name) + "/versions/" + url.PathEscape(ref.version)
	if a.second {
		return a.get(ctx, path, path)
	}
	return a.get(ctx, path+"/content", path)
}

func (a apicurio) get(ctx context.Context, content, path string) (s schema, err error) {
	text, err := a.c.get(ctx, content)
	if err != nil {
		return s, err
	}
	s.text = string(text)
	var answer []struct {
		Group    string `json:"groupId"`
		Artifact string `json:"artifactId"`
		Version  string `json:"version"`
	}
	if err := a.c.getJSON(ctx, path+"/references", &answer); err != nil {
		return s, err
	}
	for _, r := range answer {
		if r.Group == "" {
			r.Group = "default"
		}
		s.references = append(s.references, reference{r.Group, r.Artifact, r.Version})
	}
	return s, nil
}

func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	body, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &decode.SchemaError{Retryable: true, Err: fmt.Errorf("schema registry: GET %s: the answer is no JSON; is schema_registry.url right? %w", path, err)}
	}
	return nil
}
