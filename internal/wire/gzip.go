package wire

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
)

// encoding returns the answer's content encoding, empty for none.
func (x *exchange) encoding() string {
	enc := strings.ToLower(strings.TrimSpace(x.header.Get("Content-Encoding")))
	if enc == "identity" {
		return ""
	}
	return enc
}

// decoded undoes a content encoding. When it cannot, it returns b as it is and an error that quotes its beginning.
func decoded(enc string, b []byte, max int64) ([]byte, error) {
	r, err := decoder(enc, b)
	if err == nil {
		var out []byte
		out, err = io.ReadAll(io.LimitReader(r, max+1))
		switch {
		case err == nil && int64(len(out)) > max:
			return b, fmt.Errorf("the body is over %d bytes once its Content-Encoding %s is undone", max, enc)
		case err == nil:
			return out, nil
		}
	}
	return b, fmt.Errorf("the body does not have the Content-Encoding %s that its header names (%w): it begins with %.60q", enc, err, b[:min(len(b), 60)])
}

func decoder(enc string, b []byte) (io.Reader, error) {
	switch enc {
	case "gzip", "x-gzip":
		return gzip.NewReader(bytes.NewReader(b))
	case "deflate":
		if r, err := zlib.NewReader(bytes.NewReader(b)); err == nil {
			return r, nil
		}
		return flate.NewReader(bytes.NewReader(b)), nil
	}
	return nil, fmt.Errorf("an encoding that the request did not accept")
}
