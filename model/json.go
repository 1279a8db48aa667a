package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxScript bounds the text of a script, in bytes.
const maxScript = 32 << 20

// ParseScript reads a script from its JSON form, a list of steps:
//
//	[{"call": "math:add", "args": {"a": 2, "b": 3}, "when": {"text": "add"}},
//	 {"say": "The answer is 5."}]
//
// Members that no step has, members given twice and steps that [Script.Validate] refuses are a *[ScriptError].
func ParseScript(data []byte) (Script, error) {
	if len(data) > maxScript {
		return nil, &ScriptError{Message: fmt.Sprintf("it has %d bytes, and %d is the limit", len(data), maxScript)}
	}
	var raw []json.RawMessage
	if err := strict(data, &raw); err != nil {
		return nil, &ScriptError{Message: "it is not a list of steps: " + plain(err)}
	}
	script := make(Script, 0, len(raw))
	for i, r := range raw {
		var s Step
		if err := s.UnmarshalJSON(r); err != nil {
			var se *ScriptError
			if errors.As(err, &se) {
				se.Step = i + 1
				return nil, se
			}
			return nil, &ScriptError{Step: i + 1, Message: plain(err)}
		}
		script = append(script, s)
	}
	if err := script.Validate(); err != nil {
		return nil, err
	}
	return script, nil
}

// stepJSON is a step in JSON. The names are those of YAML files too.
type stepJSON struct {
	Name        string          `json:"name,omitempty"`
	For         string          `json:"for,omitempty"`
	When        *whenJSON       `json:"when,omitempty"`
	After       duration        `json:"after,omitempty"`
	Pace        duration        `json:"pace,omitempty"`
	Times       times           `json:"times,omitempty"`
	Think       string          `json:"think,omitempty"`
	ThinkHidden string          `json:"think_hidden,omitempty"`
	Say         *string         `json:"say,omitempty"`
	Empty       bool            `json:"empty,omitempty"`
	Call        string          `json:"call,omitempty"`
	CallRaw     string          `json:"call_raw,omitempty"`
	Args        json.RawMessage `json:"args,omitempty"`
	Calls       []useJSON       `json:"calls,omitempty"`
	Stop        Stop            `json:"stop,omitempty"`
	Usage       *usageJSON      `json:"usage,omitempty"`
	Fault       *failureJSON    `json:"fault,omitempty"`
}

type useJSON struct {
	Tool      string          `json:"tool,omitempty"`
	Raw       string          `json:"raw,omitempty"`
	Namespace string          `json:"namespace,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	ArgsText  string          `json:"args_text,omitempty"`
	ID        string          `json:"id,omitempty"`
}

type whenJSON struct {
	Text   oneOrMore `json:"text,omitempty"`
	Result oneOrMore `json:"result,omitempty"`
	System oneOrMore `json:"system,omitempty"`
	Absent oneOrMore `json:"absent,omitempty"`
	Offers oneOrMore `json:"offers,omitempty"`
	Lacks  oneOrMore `json:"lacks,omitempty"`
	Only   *[]string `json:"only,omitempty"`
}

type failureJSON struct {
	Kind       FailureKind `json:"kind,omitempty"`
	Status     int         `json:"status,omitempty"`
	Type       string      `json:"type,omitempty"`
	Code       string      `json:"code,omitempty"`
	Message    string      `json:"message,omitempty"`
	RetryAfter duration    `json:"retry_after,omitempty"`
}

// usageJSON is "none" or an object.
type usageJSON struct{ use *Usage }

func (u usageJSON) MarshalJSON() ([]byte, error) {
	if u.use == nil {
		return []byte(`"none"`), nil
	}
	return json.Marshal(*u.use)
}

func (u *usageJSON) UnmarshalJSON(b []byte) error {
	if string(b) == `"none"` {
		u.use = nil
		return nil
	}
	u.use = new(Usage)
	if err := strict(b, u.use); err != nil {
		return &ScriptError{Path: "usage", Message: `it is "none" or an object: ` + plain(err)}
	}
	return nil
}

// duration is written as Go writes it, "250ms".
type duration time.Duration

func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf(`a duration is text such as "250ms", not %s`, short(string(b)))
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf(`a duration is text such as "250ms", not %q`, short(text))
	}
	*d = duration(v)
	return nil
}

// times is a number, or "forever".
type times int

func (t times) MarshalJSON() ([]byte, error) {
	if t == forever {
		return []byte(`"forever"`), nil
	}
	return json.Marshal(int(t))
}

func (t *times) UnmarshalJSON(b []byte) error {
	if string(b) == `"forever"` {
		*t = forever
		return nil
	}
	var n int
	if err := json.Unmarshal(b, &n); err != nil || n < 1 {
		return fmt.Errorf(`times is a number from 1 on, or "forever", not %s`, short(string(b)))
	}
	*t = times(n)
	return nil
}

// oneOrMore is a text or a list of texts.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil && string(b) != "null" {
		*o = oneOrMore{one}
		return nil
	}
	if err := json.Unmarshal(b, (*[]string)(o)); err != nil {
		return fmt.Errorf("a condition is a text or a list of texts, not %s", short(string(b)))
	}
	return nil
}

// MarshalJSON writes the step as [ParseScript] reads it.
func (s Step) MarshalJSON() ([]byte, error) {
	j := stepJSON{
		Name: s.name, For: s.role, After: duration(s.after), Pace: duration(s.pace), Times: times(s.times), Think: s.think, ThinkHidden: s.hidden,
		Say: s.say, Empty: s.empty, Stop: s.stop, When: s.when.json(),
	}
	if s.silent || s.usage != nil {
		j.Usage = &usageJSON{s.usage}
	}
	if f := s.fault; f != nil {
		j.Fault = &failureJSON{Kind: f.Kind, Status: f.Status, Type: f.Type, Code: f.Code, Message: f.Message, RetryAfter: duration(f.RetryAfter)}
	}
	for _, u := range s.calls {
		c := useJSON{Tool: u.Tool, Raw: u.Raw, Namespace: u.Namespace, ArgsText: u.ArgsText, ID: u.ID}
		if u.Args != nil {
			b, err := encode(u.Args)
			if err != nil {
				return nil, err
			}
			c.Args = b
		}
		j.Calls = append(j.Calls, c)
	}
	if len(j.Calls) == 1 && j.Calls[0].Namespace+j.Calls[0].ArgsText+j.Calls[0].ID == "" {
		j.Call, j.CallRaw, j.Args, j.Calls = j.Calls[0].Tool, j.Calls[0].Raw, j.Calls[0].Args, nil
	}
	return encode(j)
}

func (c Condition) json() *whenJSON {
	w := &whenJSON{Text: c.text, Result: c.result, System: c.system, Absent: c.absent, Offers: c.offers, Lacks: c.lacks}
	empty := true
	for _, list := range c.lists() {
		empty = empty && len(list) == 0
	}
	if c.only != nil {
		w.Only, empty = &c.only, false
	}
	if empty {
		return nil
	}
	return w
}

// UnmarshalJSON reads one step. It refuses members that no step has; [Script.Validate] checks the rest.
func (s *Step) UnmarshalJSON(b []byte) error {
	var j stepJSON
	if err := strict(b, &j); err != nil {
		return err
	}
	uses, err := j.uses()
	if err != nil {
		return err
	}
	*s = Step{
		name: j.Name, role: j.For, after: time.Duration(j.After), pace: time.Duration(j.Pace), times: int(j.Times), think: j.Think, hidden: j.ThinkHidden,
		say: j.Say, empty: j.Empty, stop: j.Stop, calls: uses,
	}
	if j.Usage != nil {
		s.usage, s.silent = j.Usage.use, j.Usage.use == nil
	}
	if f := j.Fault; f != nil {
		*s = s.Fault(Failure{Kind: f.Kind, Status: f.Status, Type: f.Type, Code: f.Code, Message: f.Message, RetryAfter: time.Duration(f.RetryAfter)})
	}
	if w := j.When; w != nil {
		s.when = Condition{text: w.Text, result: w.Result, system: w.System, absent: w.Absent, offers: w.Offers, lacks: w.Lacks}
		if w.Only != nil {
			s.when.only = append([]string{}, *w.Only...)
		}
	}
	return nil
}

func (j *stepJSON) uses() ([]Use, error) {
	ways := 0
	for _, given := range []bool{j.Call != "", j.CallRaw != "", j.Calls != nil} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, &ScriptError{Path: "call", Message: "a step has one of call, call_raw and calls"}
	case j.Args != nil && (ways == 0 || j.Calls != nil):
		return nil, &ScriptError{Path: "args", Message: "args go with call or call_raw"}
	case ways == 1 && j.Calls == nil:
		return []Use{{Tool: j.Call, Raw: j.CallRaw, Args: args(j.Args)}}, nil
	}
	var uses []Use
	for _, c := range j.Calls {
		uses = append(uses, Use{Tool: c.Tool, Raw: c.Raw, Namespace: c.Namespace, Args: args(c.Args), ArgsText: c.ArgsText, ID: c.ID})
	}
	return uses, nil
}

// args keeps the text of the arguments: numbers stay what they are.
func args(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return raw
}

// strict decodes one JSON value, and refuses members that v does not have or that are given twice.
func strict(b []byte, v any) error {
	if err := unique(b); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// maxDepth bounds how deep a script nests.
const maxDepth = 200

// unique reports a member that an object has twice, and anything after the value.
func unique(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := uniqueValue(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}

func uniqueValue(dec *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it nests deeper than %d", maxDepth)
	}
	t, err := dec.Token()
	if err != nil {
		return err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("the member %q is there twice", name)
			}
			seen[name] = true
		}
		if err := uniqueValue(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// plain is the text of an error of encoding/json, for somebody who writes no Go.
func plain(err error) string {
	var te *json.UnmarshalTypeError
	var se *ScriptError
	switch {
	case errors.As(err, &se):
		return se.Message
	case errors.As(err, &te):
		where := ""
		if te.Field != "" {
			where = te.Field + ": "
		}
		kind := strings.Fields(te.Value)[0] // of a number it has the text too
		article := "a"
		if strings.ContainsAny(kind[:1], "ao") {
			article = "an"
		}
		return fmt.Sprintf("%s%s %s does not belong there", where, article, kind)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the text ends too early"
	}
	return strings.Replace(strings.TrimPrefix(err.Error(), "json: "), "unknown field", "there is no member", 1)
}
