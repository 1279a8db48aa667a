package aggregate

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/m3-go/m3/trace"
)

// Facts are what aggregation needs of one execution, beside its labels.
type Facts struct {
	Created    int64  // nanoseconds since 1970
	Tie        uint64 // orders executions that were created at the same moment
	Trial      string // the number of the trial, as metadata has it
	MatrixCase string

	// All below is known when the execution has finished.
	Finished       bool
	Unread         bool // its trace was not read yet: all below Duration is not known
	Infrastructure bool // it ended for a reason that is no verdict about the subject
	Outcome        trace.Outcome
	Duration       int64  // nanoseconds
	Tool           string // the tool that was called, or Multiple
	Calls          int
	Succeeded      int
	Failed         int
	ProtocolErrors int
	Latencies      []int64 // of the tool calls that were answered, nanoseconds
}

// Finish fills in what the finished trace says. A trace that cannot be read any more has an outcome and nothing else.
func (f *Facts) Finish(t *trace.Trace, end trace.Finished, at int64) {
	f.End(end, at)
	f.Read(t)
}

// End fills in what the last event of the trace says. The rest is left to Read.
func (f *Facts) End(end trace.Finished, at int64) {
	f.Finished, f.Unread, f.Outcome, f.Duration = true, true, end.Outcome, max(0, at-f.Created)
	var reason struct {
		Code           string `json:"code"`
		Infrastructure bool   `json:"infrastructure"`
	}
	if len(end.Error) > 0 && json.Unmarshal(end.Error, &reason) == nil {
		f.Infrastructure = reason.Infrastructure || reason.Code == "infrastructure"
	}
}

// Read fills in what the whole of the finished trace says.
func (f *Facts) Read(t *trace.Trace) {
	f.Unread = false
	v, err := t.View()
	if err != nil {
		return
	}
	sum := v.Summary()
	f.Calls, f.Succeeded, f.Failed, f.ProtocolErrors = sum.ToolCallCount, sum.SuccessfulToolCalls, sum.FailedToolCalls, sum.ProtocolErrorCount
	for _, c := range v.ToolCalls().All() {
		if c.Own || !c.Wire.OK() { // what an agent only told, or was refused, is no call
			continue
		}
		if c.ServerLatency.State == trace.Observed {
			f.Latencies = append(f.Latencies, int64(c.ServerLatency.Value))
		}
		switch name := c.Tool.Value; {
		case c.Tool.State != trace.Observed, name == f.Tool:
		case f.Tool == "":
			f.Tool = name
		default:
			f.Tool = Multiple
		}
	}
}

const (
	factsVersion = 1

	flagFinished       = 1
	flagInfrastructure = 2
	flagUnread         = 4
)

// Unread reports whether stored facts are of a finished execution whose trace was not read yet.
func Unread(b []byte) bool { return len(b) > 1 && b[1]&flagUnread != 0 }

// Append appends the stored form.
func (f *Facts) Append(dst []byte) []byte {
	flags := byte(0)
	if f.Finished {
		flags |= flagFinished
	}
	if f.Infrastructure {
		flags |= flagInfrastructure
	}
	if f.Unread {
		flags |= flagUnread
	}
	dst = append(dst, factsVersion, flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Created))
	dst = binary.BigEndian.AppendUint64(dst, f.Tie)
	for _, s := range []string{f.Trial, f.MatrixCase, string(f.Outcome), f.Tool} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	for _, n := range []int64{f.Duration, int64(f.Calls), int64(f.Succeeded), int64(f.Failed), int64(f.ProtocolErrors), int64(len(f.Latencies))} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, n := range f.Latencies {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

var errFacts = errors.New("aggregate: the stored facts of an execution are damaged")

// Interner keeps one copy of equal texts, and lists of numbers in few pieces. The zero Interner is ready.
type Interner struct {
	// Brief leaves out the texts of facts that few questions need: see [Engine.Brief].
	Brief bool

	m       map[string]string
	outcome string
	numbers []int64
}

// list returns a slice of n numbers.
func (in *Interner) list(n int) []int64 {
	if n == 0 {
		return nil
	}
	if cap(in.numbers)-len(in.numbers) < n {
		in.numbers = make([]int64, 0, max(n, 8192))
	}
	at := len(in.numbers)
	in.numbers = in.numbers[:at+n]
	return in.numbers[at : at+n : at+n]
}

func (in *Interner) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := in.m[string(b)]; ok {
		return s
	}
	if in.m == nil {
		in.m = map[string]string{}
	}
	s := string(b)
	in.m[s] = s
	return s
}

// Decode reads what Append wrote. It keeps nothing of b.
func (f *Facts) Decode(b []byte, in *Interner) error {
	if len(b) < 18 || b[0] != factsVersion {
		return errFacts
	}
	*f = Facts{Finished: b[1]&flagFinished != 0, Unread: b[1]&flagUnread != 0, Infrastructure: b[1]&flagInfrastructure != 0,
		Created: int64(binary.BigEndian.Uint64(b[2:])), Tie: binary.BigEndian.Uint64(b[10:])}
	d := decoder{b: b[18:]}
	trial, matrixCase, outcome, tool := d.bytes(), d.bytes(), d.bytes(), d.bytes()
	if string(outcome) != in.outcome { // it is the same, again and again
		in.outcome = in.text(outcome)
	}
	f.Outcome = trace.Outcome(in.outcome)
	if !in.Brief {
		f.Trial, f.MatrixCase, f.Tool = in.text(trial), in.text(matrixCase), in.text(tool)
	}
	f.Duration, f.Calls, f.Succeeded, f.Failed, f.ProtocolErrors = d.number(), int(d.number()), int(d.number()), int(d.number()), int(d.number())
	n := d.number()
	if n < 0 || n > int64(len(d.b)) {
		return errFacts
	}
	f.Latencies = in.list(int(n))
	for i := range f.Latencies {
		f.Latencies[i] = d.number()
	}
	if d.bad || len(d.b) != 0 {
		return errFacts
	}
	return nil
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() int64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		n := d.b[0]
		d.b = d.b[1:]
		return int64(n)
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 || int64(v) < 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return int64(v)
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n > int64(len(d.b)) {
		d.b, d.bad = nil, true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}
