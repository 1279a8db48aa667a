package spool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// Version is the format that this package writes; it reads the earlier ones too, and no newer one. Version 2 has evaluations.
const Version = 2

// Header is the first line of a spool: who wrote it, for which run and database.
type Header struct {
	Format   int       `json:"m3_spool"` // the format's version
	Version  string    `json:"m3_version"`
	RunID    string    `json:"run_id"`
	Package  string    `json:"package"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started_at"`
	Database string    `json:"database"`
}

// ParseHeader reads a header line. The error wraps [store.ErrVersion] when the format is newer than [Version].
func ParseHeader(line []byte) (Header, error) {
	var h Header
	if err := json.Unmarshal(line, &h); err != nil {
		return Header{}, fmt.Errorf("spool: the first line is no header: %w", err)
	}
	switch {
	case h.Format > Version:
		return h, fmt.Errorf("%w: the spool has format %d (m3 %s), this m3 reads up to %d", store.ErrVersion, h.Format, h.Version, Version)
	case h.Format < 1 || h.RunID == "":
		return Header{}, fmt.Errorf("spool: the first line is no header: %.80q", line)
	}
	return h, nil
}

// Line is one record of a spool as it stands there. Its slices alias the line, or are its own after an escaped one.
type Line struct {
	Type        string // the record's type
	ExecutionID []byte // of an event or blob
	Sequence    int64
	Kind        []byte
	Body        []byte // of an event
	SHA256      string // of a blob, whose bytes are in a file beside the spool
	Size        int64
	Value       []byte // of every other record, as store.Encode made it
}

// The fixed layout of an event's line. Everything that matters for speed is an event; the rest is read by encoding/json.
const (
	eventPrefix   = `{"t":"event","x":`
	sequenceName  = `,"s":`
	kindName      = `,"k":`
	bodyName      = `,"b":`
	bodyNameCoded = `,"b64":"`
)

// appendEvent appends the line of an event, its newline included. from and to are where the body stands in it; coded says that it
// stands there in base64: because it would not be one line, or because the line has to be read by encoding/json, which would
// not take a body that is no JSON.
func appendEvent(dst []byte, r *store.Event) (out []byte, from, to int, coded bool) {
	start := len(dst)
	dst = append(dst, eventPrefix...)
	dst = trace.AppendString(dst, string(r.ExecutionID))
	dst = append(dst, sequenceName...)
	dst = strconv.AppendInt(dst, r.Sequence, 10)
	dst = append(dst, kindName...)
	dst = trace.AppendString(dst, string(r.Kind))
	if bytes.IndexByte(r.Body, '\n') >= 0 || bytes.IndexByte(dst[start:], '\\') >= 0 {
		dst = append(dst, bodyNameCoded...)
		from = len(dst)
		dst = base64.StdEncoding.AppendEncode(dst, r.Body)
		to = len(dst)
		return append(dst, "\"}\n"...), from, to, true
	}
	dst = append(dst, bodyName...)
	from = len(dst)
	dst = append(dst, r.Body...)
	to = len(dst)
	return append(dst, "}\n"...), from, to, false
}

func appendBlob(dst []byte, r *store.Blob) []byte {
	dst = append(dst, `{"t":"blob","x":`...)
	dst = trace.AppendString(dst, string(r.ExecutionID))
	dst = append(dst, `,"h":"`...)
	dst = append(dst, r.SHA256...)
	dst = append(dst, `","n":`...)
	dst = strconv.AppendInt(dst, int64(len(r.Data)), 10)
	return append(dst, "}\n"...)
}

func appendValue(dst []byte, typ string, value []byte) []byte {
	dst = append(dst, `{"t":"`...)
	dst = append(dst, typ...)
	dst = append(dst, `","v":`...)
	dst = append(dst, value...)
	return append(dst, "}\n"...)
}

// Decode reads a line, without its newline, into l. What it cannot read it names in the error.
func (l *Line) Decode(b []byte) error {
	if l.decodeEvent(b) {
		return nil
	}
	return l.decodeAny(b)
}

// decodeEvent reads a line in exactly the layout of appendEvent, without base64 and escapes, and does not look into the body.
func (l *Line) decodeEvent(b []byte) bool {
	rest, ok := bytes.CutPrefix(b, []byte(eventPrefix))
	if !ok {
		return false
	}
	id, rest, ok := cutString(rest)
	if !ok {
		return false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(sequenceName)); !ok {
		return false
	}
	seq, n := uint64(0), 0
	for n < len(rest) && n < 19 && rest[n] >= '0' && rest[n] <= '9' {
		seq = seq*10 + uint64(rest[n]-'0')
		n++
	}
	if rest, ok = bytes.CutPrefix(rest[n:], []byte(kindName)); !ok || n == 0 || seq > math.MaxInt64 {
		return false
	}
	kind, rest, ok := cutString(rest)
	if !ok {
		return false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(bodyName)); !ok {
		return false
	}
	body, ok := bytes.CutSuffix(rest, []byte("}"))
	if !ok || len(id) == 0 || len(kind) == 0 || len(body) == 0 {
		return false
	}
	*l = Line{Type: "event", ExecutionID: id, Sequence: int64(seq), Kind: kind, Body: body}
	return true
}

// cutString cuts a quoted string without escapes off b.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	i := bytes.IndexByte(b[1:], '"')
	if i < 0 || bytes.IndexByte(b[1:1+i], '\\') >= 0 {
		return nil, nil, false
	}
	return b[1 : 1+i], b[2+i:], true
}

// storedLine is every line but the header.
type storedLine struct {
	Type        string          `json:"t"`
	ExecutionID string          `json:"x"`
	Sequence    *int64          `json:"s"`
	Kind        string          `json:"k"`
	Body        json.RawMessage `json:"b"`
	Coded       []byte          `json:"b64"`
	SHA256      string          `json:"h"`
	Size        int64           `json:"n"`
	Value       json.RawMessage `json:"v"`
}

func (l *Line) decodeAny(b []byte) error {
	var s storedLine
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("spool: not a record: %w: %.80q", err, b)
	}
	*l = Line{Type: s.Type, ExecutionID: []byte(s.ExecutionID), Kind: []byte(s.Kind), Body: s.Body, SHA256: s.SHA256, Size: s.Size, Value: s.Value}
	if s.Sequence != nil {
		l.Sequence = *s.Sequence
	}
	if s.Coded != nil {
		l.Body = s.Coded
	}
	var err error
	switch s.Type {
	case "event":
		err = store.Check(&store.Event{ExecutionID: trace.ExecutionID(s.ExecutionID), Sequence: l.Sequence, Kind: trace.Kind(s.Kind), Body: l.Body})
		if s.Sequence == nil {
			err = fmt.Errorf("spool: an event without a sequence: %.80q", b)
		}
	case "blob":
		err = store.Check(&store.Blob{SHA256: s.SHA256})
	case "run", "test", "item", "execution", "evaluation":
		if len(s.Value) == 0 {
			err = fmt.Errorf("spool: a %s without a value: %.80q", s.Type, b)
		}
	default:
		err = fmt.Errorf("spool: unknown record type %.80q", s.Type)
	}
	return err
}
