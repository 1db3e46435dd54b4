package transform

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// sealedMark begins the value of a record that is stored sealed. Behind it: 16 bytes of
// salt, from which and the secret the key comes (HKDF-SHA-256), 12 of nonce, and the
// record's key, value and headers under AES-256-GCM, bound to topic, partition and offset.
const sealedMark = "gscd sealed 1\n"

const (
	saltBytes  = 16
	nonceBytes = 12
	// maxKeys bounds the keys that are remembered: each process writes with one.
	maxKeys = 64
)

// sealer keeps records that are stored from who has not the secret. It is of one Decoder.
type sealer struct {
	secret []byte
	salt   []byte
	keys   map[string]cipher.AEAD
}

func newSealer(secret []byte) *sealer {
	s := &sealer{secret: secret, salt: make([]byte, saltBytes), keys: map[string]cipher.AEAD{}}
	rand.Read(s.salt)
	return s
}

func (s *sealer) key(salt []byte) (cipher.AEAD, error) {
	if known := s.keys[string(salt)]; known != nil {
		return known, nil
	}
	key, err := hkdf.Key(sha256.New, s.secret, salt, "gscd stored records", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of stored records: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("derive the key of stored records: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("derive the key of stored records: %w", err)
	}
	if len(s.keys) >= maxKeys {
		clear(s.keys)
	}
	s.keys[string(salt)] = aead
	return aead, nil
}

// place is what a sealed record is bound to: it can't be put in the place of another.
func place(r *change.Record) []byte {
	return fmt.Appendf(nil, "%s\x00%d\x00%d", r.Topic, r.Partition, r.Offset)
}

// IsSealed tells a stored record whose content nobody sees without the secret.
func IsSealed(r *change.Record) bool {
	return r.Stored && len(r.Key) == 0 && bytes.HasPrefix(r.Value, []byte(sealedMark))
}

// seal gives the record as it is stored.
func (s *sealer) seal(r *change.Record) (*change.Record, error) {
	if IsSealed(r) {
		return r, nil
	}
	aead, err := s.key(s.salt)
	if err != nil {
		return nil, err
	}
	plain := appendBytes(nil, r.Key)
	plain = appendBytes(plain, r.Value)
	plain = binary.AppendUvarint(plain, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		plain = appendBytes(appendBytes(plain, []byte(h.Key)), h.Value)
	}
	out := *r
	out.Key, out.Headers, out.Stored = nil, nil, true
	value := make([]byte, 0, len(sealedMark)+saltBytes+nonceBytes+len(plain)+aead.Overhead())
	value = append(append(value, sealedMark...), s.salt...)
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce)
	value = append(value, nonce...)
	out.Value = aead.Seal(value, nonce, plain, place(r))
	return &out, nil
}

var errSealed = errors.New("the record was stored under another transform.hash_secret, or changed since: set that secret to go on")

// open gives a sealed record as it came, any other as it is. Its error stops whoever
// reads: the record is not at fault.
func (s *sealer) open(r *change.Record) (*change.Record, error) {
	if !IsSealed(r) {
		return r, nil
	}
	fault := &decode.SchemaError{Err: errSealed}
	rest := r.Value[len(sealedMark):]
	if len(rest) < saltBytes+nonceBytes {
		return nil, fault
	}
	aead, err := s.key(rest[:saltBytes])
	if err != nil {
		return nil, &decode.SchemaError{Err: err}
	}
	nonce, sealed := rest[saltBytes:saltBytes+nonceBytes], rest[saltBytes+nonceBytes:]
	b, err := aead.Open(nil, nonce, sealed, place(r))
	if err != nil {
		return nil, fault
	}
	out := *r
	out.Stored = false
	if out.Key, b, err = takeBytes(b); err != nil {
		return nil, &decode.SchemaError{Err: err}
	}
	if out.Value, b, err = takeBytes(b); err != nil {
		return nil, &decode.SchemaError{Err: err}
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)) {
		return nil, &decode.SchemaError{Err: errShort}
	}
	b = b[size:]
	for range n {
		var key, value []byte
		if key, b, err = takeBytes(b); err != nil {
			return nil, &decode.SchemaError{Err: err}
		}
		if value, b, err = takeBytes(b); err != nil {
			return nil, &decode.SchemaError{Err: err}
		}
		out.Headers = append(out.Headers, change.Header{Key: string(key), Value: value})
	}
	return &out, nil
}

// appendBytes writes a length and one, 0 for nil, and the bytes.
func appendBytes(b, p []byte) []byte {
	if p == nil {
		return binary.AppendUvarint(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(p))+1), p...)
}

var errShort = errors.New("a sealed record is cut off")

func takeBytes(b []byte) (p, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	switch {
	case size <= 0 || n > uint64(len(b)-size)+1:
		return nil, nil, errShort
	case n == 0:
		return nil, b[size:], nil
	}
	return b[size : size+int(n-1)], b[size+int(n-1):], nil
}

// Seals tells that stored records are sealed: of a column nothing is to be seen.
func (r *Rules) Seals() bool { return r != nil && r.seals }

// Open gives a stored record as it came, of a table whose stored records are sealed. Its
// error says that the secret is another one.
func (r *Rules) Open(rec *change.Record) (*change.Record, error) {
	if !IsSealed(rec) {
		return rec, nil
	}
	if r == nil || len(r.secret) == 0 {
		return nil, errSealed
	}
	return newSealer(r.secret).open(rec)
}

// Told gives an error of a record as it may be told: without what may be a value of a
// column that is hidden.
func (r *Rules) Told(err error) string {
	if !r.Seals() {
		return err.Error()
	}
	return "(not told, since the table hides columns and the words may have a value in them: `gscd dead-letter show` has the record)"
}
