package config

import (
	"reflect"
)

// Differences gives the keys outside of tables whose values differ between two
// configurations, in the order of the file.
func (c *Config) Differences(other *Config) []string {
	keys := differences(reflect.ValueOf(c).Elem(), reflect.ValueOf(other).Elem(), "")
	if !reflect.DeepEqual(c.Notify, other.Notify) {
		keys = append(keys, "notify")
	}
	return keys
}

func differences(a, b reflect.Value, prefix string) (keys []string) {
	theirs := fieldsOf(b)
	for i, f := range fieldsOf(a) {
		x, y, key := f.value, theirs[i].value, join(prefix, f.key)
		if x.Kind() == reflect.Pointer && !x.IsNil() && !y.IsNil() {
			x, y = x.Elem(), y.Elem()
		}
		switch {
		case x.Kind() == reflect.Struct && isSection(x.Type()):
			keys = append(keys, differences(x, y, key)...)
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}
