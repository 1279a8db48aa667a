package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/trace"
)

// Check reports what makes rec unusable: an unknown type, or a missing id. Every store calls it first.
func Check(rec Record) error {
	switch r := rec.(type) {
	case *Run:
		return need(r != nil && r.ID != "", "run", "ID")
	case *Test:
		return need(r != nil && r.ID != "" && r.RunID != "", "test", "ID and RunID")
	case *Item:
		return need(r != nil && r.RunID != "", "item", "RunID")
	case *Execution:
		return need(r != nil && r.ID != "" && r.RunID != "", "execution", "ID and RunID")
	case *Evaluation:
		if err := need(r != nil && r.ID != "" && r.RunID != "" && r.Evaluator != "" && r.Kind != "" && !r.Created.IsZero(), "evaluation", "ID, RunID, Evaluator, Kind and Created"); err != nil {
			return err
		}
		d := eval.Decision{Status: r.Status, Score: r.Score, Metrics: r.Metrics}
		return d.Validate()
	case *Event:
		return need(r != nil && r.ExecutionID != "" && r.Sequence >= 0 && r.Kind != "" && len(r.Body) > 0, "event", "ExecutionID, Sequence, Kind and Body")
	case *Blob:
		return need(r != nil && validDigest(r.SHA256), "blob", "SHA256 (64 lower-case hexadecimal digits)")
	}
	return fmt.Errorf("store: unknown record type %T", rec)
}

func need(ok bool, what, fields string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("store: unusable %s record: it needs %s", what, fields)
}

// validDigest also guards the spool, where a digest is a file name.
func validDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Encode returns the stored form of a *Run, *Test, *Item, *Execution or *Evaluation: one JSON object on one line, names trimmed, times in
// UTC. What [Decode] makes of it is what every store gives back. Events and blobs are stored as they are.
func Encode(rec Record) ([]byte, error) {
	if err := Check(rec); err != nil {
		return nil, err
	}
	var v any
	switch r := rec.(type) {
	case *Run:
		c := *r
		c.Started, c.Finished = utc(c.Started), notBefore(utcPtr(c.Finished), utc(c.Started))
		v = &c
	case *Test:
		c := *r
		c.Suite = strings.TrimSpace(c.Suite)
		c.Started, c.Finished = utc(c.Started), notBefore(utcPtr(c.Finished), utc(c.Started))
		v = &c
	case *Item:
		v = r
	case *Execution:
		c := *r
		c.Suite = strings.TrimSpace(c.Suite)
		c.Created = utc(c.Created)
		v = &c
	case *Evaluation:
		c := *r
		c.Suite = strings.TrimSpace(c.Suite)
		c.Created = utc(c.Created)
		v = &c
	default:
		return nil, fmt.Errorf("store: a record of type %s is not encoded", rec.Type())
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("store: encode %s: %w", rec.Type(), err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode reads what [Encode] wrote of a record of the type (see [Record]).
func Decode(typ string, b []byte) (Record, error) {
	var rec Record
	switch typ {
	case "run":
		rec = &Run{}
	case "test":
		rec = &Test{}
	case "item":
		rec = &Item{}
	case "execution":
		rec = &Execution{}
	case "evaluation":
		rec = &Evaluation{}
	default:
		return nil, fmt.Errorf("store: decode: unknown record type %q", typ)
	}
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("store: decode %s: %w", typ, err)
	}
	if err := Check(rec); err != nil {
		return nil, err
	}
	return rec, nil
}

// DecodeFinished reads how an execution ended from the body of its execution.finished event, and when.
func DecodeFinished(id trace.ExecutionID, body []byte) (trace.Finished, time.Time, error) {
	ev, err := trace.DecodeEvent(id, body)
	if err != nil {
		return trace.Finished{}, time.Time{}, err
	}
	var f trace.Finished
	if err := ev.Payload.Decode(&f); err != nil {
		return trace.Finished{}, ev.Time, fmt.Errorf("store: decode the end of execution %s: %w", id, err)
	}
	return f, ev.Time, nil
}

func utc(t time.Time) time.Time { return t.Round(0).UTC() }

// notBefore moves an end that is before its start to the start: the machine's clock was set back in between, and nothing takes less than no time.
func notBefore(end *time.Time, start time.Time) *time.Time {
	if end == nil || start.IsZero() || !end.Before(start) {
		return end
	}
	return &start
}

func utcPtr(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := utc(*t)
	return &u
}
