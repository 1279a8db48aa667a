package eval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/m3-go/m3/trace"
)

// Canonical returns one form for all texts of the same JSON value: members sorted by name, no spaces, nothing escaped that need not be. Numbers stay as they
// are written; of duplicate members the last stands.
func Canonical(j trace.JSON) (trace.JSON, error) {
	dec := json.NewDecoder(bytes.NewReader(j))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("eval: not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("eval: not JSON: something comes after the value")
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("eval: encode: %w", err)
	}
	return trace.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// Digest is the SHA-256 of a canonical subject, in hexadecimal digits.
func Digest(j trace.JSON) string {
	sum := sha256.Sum256(j)
	return hex.EncodeToString(sum[:])
}
