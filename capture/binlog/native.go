package binlog

import (
	"encoding/hex"
	"net/netip"
)

// nativeType writes a value of MariaDB's types that the log has as bytes.
type nativeType func(dst, b []byte) ([]byte, error)

var nativeTypes = map[string]nativeType{"uuid": appendUUID, "inet6": appendInet6, "inet4": appendInet4}

// filled puts back the zeros that a string has lost at its end.
func filled(b []byte, n int) ([]byte, error) {
	if len(b) > n {
		return nil, corrupt("%d bytes, not %d", len(b), n)
	}
	return append(append(make([]byte, 0, n), b...), make([]byte, n-len(b))...), nil
}

func appendUUID(dst, b []byte) ([]byte, error) {
	b, err := filled(b, 16)
	if err != nil {
		return dst, err
	}
	for i, x := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, []byte{x})
	}
	return dst, nil
}

func appendInet6(dst, b []byte) ([]byte, error) {
	b, err := filled(b, 16)
	if err != nil {
		return dst, err
	}
	addr := netip.AddrFrom16([16]byte(b))
	// The server prints an address of IPv4 inside one of IPv6 with its dots.
	if addr.Is4In6() || bigEndian(b[:8]) != 0 || bigEndian(b[8:12]) != 0 || bigEndian(b[12:14]) == 0 {
		return addr.AppendTo(dst), nil
	}
	return netip.AddrFrom4([4]byte(b[12:])).AppendTo(append(dst, "::"...)), nil
}

func appendInet4(dst, b []byte) ([]byte, error) {
	b, err := filled(b, 4)
	if err != nil {
		return dst, err
	}
	return netip.AddrFrom4([4]byte(b)).AppendTo(dst), nil
}
