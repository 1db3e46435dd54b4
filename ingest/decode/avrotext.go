package decode

import (
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/ingest/change"
)

// AvroText gives what a record's key and value in Avro say, as JSON for people;
// "" for a part that is not in Avro or can't be read, for which the error says why.
func AvroText(rec *change.Record, a Avro, schemas Schemas) (key, value string, err error) {
	key, keyErr := avroText(rec, &keyPart, rec.Key, a, schemas)
	value, valueErr := avroText(rec, &valuePart, rec.Value, a, schemas)
	if keyErr != nil {
		keyErr = fmt.Errorf("the key: %w", keyErr)
	}
	if valueErr != nil {
		valueErr = fmt.Errorf("the value: %w", valueErr)
	}
	return key, value, errors.Join(keyErr, valueErr)
}

func avroText(rec *change.Record, p *avroPart, b []byte, a Avro, schemas Schemas) (string, error) {
	if !p.framed(rec, b) {
		return "", nil
	}
	id, at, err := a.frame(rec, p, b)
	if err != nil {
		return "", err
	}
	texts, err := schemas.Schema(id)
	if err != nil {
		return "", fmt.Errorf("%s: %w", id, err)
	}
	t, err := parseAvro(texts)
	if err != nil {
		return "", fmt.Errorf("%s: %w", id, err)
	}
	r := &avroCells{arena: &change.Arena{}}
	r.reset(b, at)
	switch end := r.skip(t, at, 0); {
	case end < 0:
		return "", fmt.Errorf("%s: %w", id, r.err)
	case end != len(b):
		return "", fmt.Errorf("%s: avro at byte %d: %d bytes behind the value", id, end, len(b)-end)
	}
	text, err := r.json(t, at)
	if err != nil {
		return "", fmt.Errorf("%s: %w", id, err)
	}
	return text, nil
}
