package transform

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings is what is configured for a table. Names are the source's, without regard
// to case.
type Settings struct {
	// Include are the columns to take; empty: all but those of Exclude.
	Include, Exclude []string
	// Hash are the columns of which the keyed hash is taken in place of the value:
	// HMAC-SHA-256 of its text under Secret, as 64 hexadecimal digits.
	Hash   []string
	Secret []byte
	// Mask gives what stands in place of the values of a column.
	Mask map[string]Mask
	// Plain keeps stored records (changes of days to come, dead letters) as they came,
	// although columns are hidden. Else they are sealed under Secret.
	Plain bool
	// Seal seals them although no column is hashed or masked.
	Seal bool
	// Rename gives columns the names that they have in the table.
	Rename map[string]string
	// Where is the condition of the rows to take, in the language of package expr.
	Where string
	// Shard adds a column that names the shard, nil for none.
	Shard *Shard
	// Key are the configured key columns, by their names in the table; empty: those
	// of the records.
	Key []string
}

// Empty reports that nothing is to be done.
func (s *Settings) Empty() bool {
	return len(s.Include)+len(s.Exclude)+len(s.Hash)+len(s.Mask)+len(s.Rename) == 0 && s.Where == "" && s.Shard == nil && !s.Seal
}

// String leaves out the secret.
func (s Settings) String() string {
	return fmt.Sprintf("hashed %q, masked %q, left out %q", s.Hash, slices.Sorted(maps.Keys(s.Mask)), s.Exclude)
}

// GoString is String.
func (s Settings) GoString() string { return s.String() }

// Rules are checked settings, safe for concurrent use.
type Rules struct {
	include, exclude, hash map[string]bool
	mask                   map[string]Mask
	rename                 map[string]string
	seals                  bool
	where                  string
	secret                 []byte
	shard                  *Shard
	ownKey                 bool // the key is configured
	fingerprint            string
}

// New checks settings; the error has every fault. It is nil Rules for empty settings.
func New(s Settings) (*Rules, error) {
	if s.Empty() {
		return nil, nil
	}
	r := &Rules{
		include: set(s.Include), exclude: set(s.Exclude), hash: set(s.Hash), mask: folded(s.Mask), rename: folded(s.Rename),
		where: strings.TrimSpace(s.Where), secret: s.Secret, shard: s.Shard, ownKey: len(s.Key) > 0,
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(r.exclude)) {
		if r.include[name] {
			fault("column %s is both included and excluded", name)
		}
	}
	for _, list := range []struct {
		what  string
		names []string
	}{{"hashed", slices.Sorted(maps.Keys(r.hash))}, {"masked", slices.Sorted(maps.Keys(r.mask))}, {"renamed", slices.Sorted(maps.Keys(r.rename))}} {
		for _, name := range list.names {
			if !r.takes(name) {
				fault("column %s is left out, and %s", name, list.what)
			}
			if list.what == "masked" && r.hash[name] {
				fault("column %s is both hashed and masked", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.mask)) {
		if why := r.mask[name].check(name); why != "" {
			fault("%s", why)
		}
		if r.mask[name].Method == HMAC { // the same as hash_columns
			r.hash[name] = true
			delete(r.mask, name)
		}
	}
	r.seals = s.Seal || !s.Plain && len(r.hash)+len(r.mask) > 0
	switch {
	case len(r.hash) > 0 && len(r.secret) < minSecret:
		fault("hashing needs a secret of at least %d bytes: a short one can be found by trying (transform.hash_secret)", minSecret)
	case r.seals && len(r.secret) == 0:
		fault("columns are hidden, and changes of days to come and dead letters would have them: set transform.hash_secret, under which such records are encrypted, or raw_records: plain")
	case r.seals && len(r.secret) < minSecret:
		fault("raw_records: encrypt needs a secret of at least %d bytes (transform.hash_secret)", minSecret)
	}
	to := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.rename)) {
		now := strings.ToLower(r.rename[name])
		if other, taken := to[now]; taken {
			fault("columns %s and %s both become %s", other, name, r.rename[name])
		}
		if now == "" {
			fault("column %s has no new name", name)
		}
		to[now] = name
	}
	if s.Shard != nil {
		if s.Shard.Column == "" {
			fault("shard_column has no name")
		}
		if !slices.Contains(ShardSources, s.Shard.From) {
			fault("shard_column is from %q: write one of %s", s.Shard.From, strings.Join(ShardSources, ", "))
		}
		if len(s.Key) > 0 && !slices.ContainsFunc(s.Key, func(k string) bool { return strings.EqualFold(k, s.Shard.Column) }) {
			fault("key lacks the shard's column %s: rows of two shards would be one", s.Shard.Column)
		}
		if _, taken := to[strings.ToLower(s.Shard.Column)]; taken {
			fault("column %s is renamed to the shard's column %s", to[strings.ToLower(s.Shard.Column)], s.Shard.Column)
		}
	}
	for _, key := range s.Key {
		if s.Shard != nil && strings.EqualFold(key, s.Shard.Column) {
			continue
		}
		name := strings.ToLower(r.SourceName(key))
		if !r.takes(name) {
			fault("key column %s is left out: rows would become one", key)
		}
		if _, masked := r.mask[name]; masked {
			fault("key column %s is masked: rows would become one; a key can be hashed", key)
		}
		if _, gone := r.rename[strings.ToLower(key)]; gone && to[strings.ToLower(key)] == "" {
			fault("key column %s is renamed: name it %s under key", key, r.rename[strings.ToLower(key)])
		}
	}
	r.fingerprint = r.describe()
	return r, errors.Join(faults...)
}

// minSecret is how many bytes a secret has at least.
const minSecret = 16

func set(names []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range names {
		out[strings.ToLower(name)] = true
	}
	return out
}

func folded[V any](m map[string]V) map[string]V {
	out := map[string]V{}
	for name, v := range m {
		out[strings.ToLower(name)] = v
	}
	return out
}

// takes reports whether a column, in lower case, comes into the table.
func (r *Rules) takes(name string) bool {
	return !r.exclude[name] && (len(r.include) == 0 || r.include[name])
}

// TableName gives a column's name in the table.
func (r *Rules) TableName(name string) string {
	if r == nil {
		return name
	}
	return cmp.Or(r.rename[strings.ToLower(name)], name)
}

// SourceName gives the name that a column of the table has in the source.
func (r *Rules) SourceName(name string) string {
	if r == nil {
		return name
	}
	for from, to := range r.rename {
		if strings.EqualFold(to, name) {
			return from
		}
	}
	return name
}

// Text reports whether a column, by its name in the source, becomes text.
func (r *Rules) Text(name string) bool {
	if r == nil {
		return false
	}
	mask, masked := r.mask[strings.ToLower(name)]
	return masked && mask.text() || r.hash[strings.ToLower(name)]
}

// Where gives the condition of rows, "" for none.
func (r *Rules) Where() string {
	if r == nil {
		return ""
	}
	return r.where
}

// String is the fingerprint.
func (r *Rules) String() string { return r.Fingerprint() }

// GoString is String.
func (r *Rules) GoString() string { return r.String() }

// Fingerprint says what the rules do, as JSON: equal text, equal rules. The secret
// is in it by a hash that does not tell it. It is empty for no rules.
func (r *Rules) Fingerprint() string {
	if r == nil {
		return ""
	}
	return r.fingerprint
}

func (r *Rules) describe() string {
	names := func(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
	var secret string
	if len(r.hash) > 0 {
		mac := hmac.New(sha256.New, r.secret)
		mac.Write([]byte("gscd: which secret is this?"))
		secret = hex.EncodeToString(mac.Sum(nil)[:4])
	}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Include []string          `json:"include,omitempty"`
		Exclude []string          `json:"exclude,omitempty"`
		Hash    []string          `json:"hash,omitempty"`
		Secret  string            `json:"secret,omitempty"`
		Mask    map[string]Mask   `json:"mask,omitempty"`
		Rename  map[string]string `json:"rename,omitempty"`
		Where   string            `json:"where,omitempty"`
		Shard   *Shard            `json:"shard,omitempty"`
	}{names(r.include), names(r.exclude), names(r.hash), secret, r.mask, r.rename, r.where, r.shard})
	if err != nil {
		return err.Error() // there is nothing in it that could fail
	}
	return strings.TrimSpace(text.String())
}
