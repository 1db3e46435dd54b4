package decode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/ingest/change"
)

// Avro says how records name their schemas.
type Avro struct {
	// Frame is FrameAuto (default), FrameConfluent, FrameApicurio or FrameHeaders.
	Frame string
	// ID is what the ids count: "content" or "global"; "" is content in Confluent's
	// frame, global in Apicurio's. Headers say it themselves.
	ID string
}

// The frames, by which a record names its schema.
const (
	// FrameAuto tells the others apart: an id in a header goes before one in the
	// bytes; 8 bytes of which the first 4 are 0 are an id of Apicurio's, for no
	// registry gives the id 0, and none has come to 2^32 of them.
	FrameAuto = "auto"
	// FrameConfluent is a 0 byte and an id of 4 bytes.
	FrameConfluent = "confluent"
	// FrameApicurio is a 0 byte and an id of 8 bytes.
	FrameApicurio = "apicurio"
	// FrameHeaders has the id in a header of the record: apicurio.value.globalId or
	// apicurio.value.contentId, 8 bytes; "key" in place of "value" for the key.
	FrameHeaders = "headers"
)

var (
	errNoRegistry = errors.New("the bytes begin as Avro with the id of a schema does: set schema_registry.url")
	errNoFrame    = errors.New("no Avro: the bytes begin with no 0 byte and id of a schema, and no header has one")
	errShortFrame = errors.New("no Avro: fewer bytes than the id of a schema has")
	errGUID       = errors.New("the schema is named by a GUID, which is not read: have the serializer write ids")
	errNoHeader   = errors.New("no header has the id of its schema (avro.frame: headers)")
)

// avroPart is one of the two of a record that may be Avro.
type avroPart struct {
	global, content string // headers
}

var (
	keyPart   = avroPart{"apicurio.key.globalId", "apicurio.key.contentId"}
	valuePart = avroPart{"apicurio.value.globalId", "apicurio.value.contentId"}
)

// framed tells whether bytes can be Avro in a frame; no JSON begins with 0.
func (p *avroPart) framed(rec *change.Record, b []byte) bool {
	_, named := p.named(rec)
	return named || len(b) > 0 && b[0] == 0
}

// named is the id in a header.
func (p *avroPart) named(rec *change.Record) (id SchemaID, ok bool) {
	for i := range rec.Headers {
		h := &rec.Headers[i]
		switch h.Key {
		case p.global:
			id.Kind = GlobalID
		case p.content:
			id.Kind = ContentID
		default:
			continue
		}
		if len(h.Value) == 8 {
			id.ID = int64(binary.BigEndian.Uint64(h.Value))
			return id, true
		}
	}
	return id, false
}

// frame gives the id of the schema of a part's bytes, and where the value begins.
func (a Avro) frame(rec *change.Record, p *avroPart, b []byte) (id SchemaID, at int, err error) {
	if a.Frame == FrameHeaders || a.Frame == FrameAuto || a.Frame == "" {
		if id, ok := p.named(rec); ok {
			return id, 0, nil
		}
		if a.Frame == FrameHeaders {
			return id, 0, errNoHeader
		}
	}
	switch {
	case len(b) > 0 && b[0] == 1 && len(b) > 17:
		return id, 0, fmt.Errorf("%w, or %w", errNoFrame, errGUID)
	case len(b) == 0 || b[0] != 0:
		return id, 0, errNoFrame
	case len(b) < 5:
		return id, 0, errShortFrame
	}
	short := binary.BigEndian.Uint32(b[1:])
	if a.Frame == FrameConfluent || a.Frame != FrameApicurio && short != 0 {
		return SchemaID{a.kind(ContentID), int64(short)}, 5, nil
	}
	if len(b) < 9 {
		return id, 0, errShortFrame
	}
	return SchemaID{a.kind(GlobalID), int64(binary.BigEndian.Uint64(b[1:]))}, 9, nil
}

func (a Avro) kind(otherwise IDKind) IDKind {
	switch a.ID {
	case "content":
		return ContentID
	case "global":
		return GlobalID
	}
	return otherwise
}
