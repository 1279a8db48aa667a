package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/m3-go/m3/trace"
)

// defaultEvidenceBytes is what ReadRawEvidence returns at most when it is not told.
const defaultEvidenceBytes = 1 << 20

// EvidenceID is the id of the raw evidence of one event: "re:<execution>:<sequence>".
func EvidenceID(id trace.ExecutionID, seq int64) string {
	return "re:" + string(id) + ":" + strconv.FormatInt(seq, 10)
}

// ParseEvidenceID takes an evidence id apart. Its error wraps [ErrEvidenceUnavailable].
func ParseEvidenceID(s string) (trace.ExecutionID, int64, error) {
	rest, ok := strings.CutPrefix(s, "re:")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i <= 0 {
		return "", 0, fmt.Errorf("%w: %.200q is no evidence id", ErrEvidenceUnavailable, s)
	}
	seq, err := strconv.ParseInt(rest[i+1:], 10, 64)
	if err != nil || seq < 0 || EvidenceID(trace.ExecutionID(rest[:i]), seq) != s {
		return "", 0, fmt.Errorf("%w: %.200q is no evidence id", ErrEvidenceUnavailable, s)
	}
	return trace.ExecutionID(rest[:i]), seq, nil
}

// ReadEvidence is ReadRawEvidence for whoever has logs: the stores, and a kit with its own tapes. Open returns the log of
// the execution that ref names. The digest is computed anew from the bytes and compared with what the event and what
// ref say. At most maxBytes (0: 1 MiB) are returned.
func ReadEvidence(open func(trace.ExecutionID) (trace.Log, error), ref trace.EvidenceRef, maxBytes int64) (Evidence, error) {
	id, seq, err := ParseEvidenceID(ref.ID)
	if err != nil {
		return Evidence{}, err
	}
	log, err := open(id)
	if errors.Is(err, ErrClosed) {
		return Evidence{}, err
	}
	if err != nil {
		return Evidence{}, fmt.Errorf("%w: %s: %w", ErrEvidenceUnavailable, ref.ID, err)
	}
	if seq >= int64(log.Len()) {
		return Evidence{}, fmt.Errorf("%w: %s: the execution has no event %d", ErrEvidenceUnavailable, ref.ID, seq)
	}
	ev, data, err := frame(log, id, int(seq))
	if err != nil {
		return Evidence{}, fmt.Errorf("%w: %s: %w", ErrEvidenceUnavailable, ref.ID, err)
	}
	if err := verify(ev.Frame, data, ref); err != nil {
		return Evidence{}, err
	}
	if maxBytes <= 0 {
		maxBytes = defaultEvidenceBytes
	}
	out := Evidence{Ref: ref, Bytes: data, Redactions: ev.Redactions}
	if int64(len(data)) > maxBytes {
		out.Bytes, out.Truncated = data[:maxBytes:maxBytes], true
	}
	return out, nil
}

func frame(log trace.Log, id trace.ExecutionID, seq int) (trace.Event, []byte, error) {
	body, err := log.AppendEvent(nil, seq)
	if err != nil {
		return trace.Event{}, nil, err
	}
	ev, err := trace.DecodeEvent(id, body)
	if err != nil {
		return trace.Event{}, nil, err
	}
	switch f := ev.Frame; {
	case f == nil:
		return ev, nil, fmt.Errorf("event %d (%s) is no frame", seq, ev.Kind)
	case f.OutOfLine:
		data, err := log.Blob(f.SHA256)
		return ev, data, err
	case len(f.Bytes) == 0 && f.Dropped > 0:
		return ev, nil, fmt.Errorf("the bytes of event %d were dropped", seq)
	default:
		return ev, f.Bytes, nil
	}
}

func verify(f *trace.Frame, data []byte, ref trace.EvidenceRef) error {
	sum := sha256.Sum256(data)
	got := hex.EncodeToString(sum[:])
	for _, want := range []string{f.SHA256, ref.SHA256} {
		if got != want {
			return &IntegrityError{Ref: ref, Field: "sha256", Want: want, Got: got}
		}
	}
	for _, want := range []int64{f.Size, ref.Size} {
		if int64(len(data)) != want {
			return &IntegrityError{Ref: ref, Field: "size_bytes", Want: strconv.FormatInt(want, 10), Got: strconv.Itoa(len(data))}
		}
	}
	return nil
}
