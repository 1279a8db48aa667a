package trace

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A payload holds the fields of its entry under their JSON names. It may come from an agent, so nothing in it is believed: a field of the
// wrong type, an observation that contradicts itself, a negative count or an id that is none is Unavailable, for it was malformed at
// the source, and every other field of the entry still counts.

// maxID is the length of the longest id that is believed, in characters.
const maxID = 256

// identifiers are the fields that hold ids and names: bounded, and without control characters.
var identifiers = map[string]bool{
	"message_id": true, "block_id": true, "provider_call_id": true, "call_id": true, "elicitation_id": true, "logical_operation_id": true,
	"operation_name": true, "request_key": true, "server": true, "tool": true, "role": true, "stop_reason": true, "currency": true,
	"provider": true, "category": true, "interaction_kind": true, "name": true, "media_type": true, "sha256": true, "policy": true, "signal": true,
}

// signed are the counts that use -1 for none.
var signed = map[string]bool{"frame_sequence": true, "offset": true}

// fillFields decodes a payload into the entry's own fields and says which limitations that had. Fields that the payload does not have
// keep their value, so that a second event can complete a first.
func fillFields(entry any, m *message) (limitations []string) {
	if m.absent != NotEmitted {
		return []string{"capture_failed"}
	}
	payload, ok := whole(m.body)
	if !ok || !payload.is('{') {
		return []string{string(ReasonMalformedSource)}
	}
	members := map[string]value{}
	for w := payload.walk(); w.next(); {
		members[w.name()] = w.val
	}
	f := filler{members: members, spans: m.spans}
	f.fill(reflect.ValueOf(entry).Elem())
	return f.limitations
}

type filler struct {
	members     map[string]value
	spans       []span
	limitations []string
}

var baseType = reflect.TypeFor[Base]()

func (f *filler) fill(entry reflect.Value) {
	for i := range entry.NumField() {
		field := entry.Type().Field(i)
		switch {
		case field.Type == baseType:
		case field.Anonymous:
			f.fill(entry.Field(i))
		default:
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if v, ok := f.members[name]; ok {
				f.field(entry.Field(i), name, v)
			}
		}
	}
}

func (f *filler) field(to reflect.Value, name string, v value) {
	redacted := v.overlaps(f.spans)
	if o, ok := to.Addr().Interface().(observation); ok {
		o.load(v, name, redacted)
		return
	}
	if redacted {
		f.limit(string(ReasonRedactedByPolicy))
	}
	in := reflect.New(to.Type())
	if json.Unmarshal(v.b, in.Interface()) != nil || !believable(in.Elem().Interface(), name) {
		f.limit(string(ReasonMalformedSource))
		return
	}
	to.Set(in.Elem())
}

func (f *filler) limit(code string) {
	if !slices.Contains(f.limitations, code) {
		f.limitations = append(f.limitations, code)
	}
}

// observation is any *Observation[T].
type observation interface {
	load(v value, name string, redacted bool)
}

// load takes an observation from a payload.
func (o *Observation[T]) load(v value, name string, redacted bool) {
	var in Observation[T]
	if json.Unmarshal(v.b, &in) != nil || !v.is('{') || !in.consistent(v) || !believable(in.Value, name) {
		*o = Absent[T](Unavailable, ReasonMalformedSource)
		return
	}
	if in.State == NotEmitted && o.State != NotEmitted {
		return // a later event does not take back what an earlier one told
	}
	*o = in
	if redacted && o.State == Observed {
		o.State, o.Reason = Redacted, ReasonRedactedByPolicy
	}
}

// stateReasons are the reasons that each state may have (spec/behaviour.md 7.4).
var stateReasons = map[State][]Reason{
	Observed:       {""},
	NotEmitted:     {"", ReasonProviderDidNotEmit},
	Unsupported:    {ReasonHarnessUnsupported, ReasonTransportNotApplicable},
	Unavailable:    {ReasonCaptureDisabled, ReasonCaptureFailed, ReasonCorrelationUnavailable, ReasonMalformedSource},
	ProviderHidden: {ReasonProviderHidden},
	Encrypted:      {ReasonProviderEncrypted},
	Redacted:       {ReasonRedactedByPolicy},
	Truncated:      {ReasonEvidenceTruncated},
}

// consistent reports whether state, reason and value go together. An observed value may be missing: that is how the zero value is written.
func (o Observation[T]) consistent(v value) bool {
	if !slices.Contains(stateReasons[o.State], o.Reason) {
		return false
	}
	val := v.field("value")
	switch o.State {
	case Observed, Redacted, Truncated:
		_, anyJSON := any(o.Value).(JSON)
		return anyJSON || !val.null()
	}
	return !val.present()
}

// believable checks what the type of a value does not say.
func believable(v any, name string) bool {
	switch v := v.(type) {
	case string:
		return !identifiers[name] || validID(v)
	case int64:
		return v >= 0 || signed[name]
	case float64:
		return v >= 0 // false for NaN
	}
	return true
}

func validID(s string) bool {
	return utf8.RuneCountInString(s) <= maxID && strings.IndexFunc(s, unicode.IsControl) < 0
}
