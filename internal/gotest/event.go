package gotest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// The actions of an [Event], as go test -json writes them.
const (
	ActionStart       = "start"
	ActionRun         = "run"
	ActionPause       = "pause"
	ActionCont        = "cont"
	ActionOutput      = "output"
	ActionPass        = "pass"
	ActionFail        = "fail"
	ActionSkip        = "skip"
	ActionBench       = "bench"
	ActionAttr        = "attr"
	ActionArtifacts   = "artifacts"
	ActionBuildOutput = "build-output"
	ActionBuildFail   = "build-fail"
)

// Event is one line of go test -json. Unknown members are ignored, unknown actions are kept; the line itself is in Raw.
type Event struct {
	Time    time.Time
	Action  string
	Package string
	Test    string  // empty for the package itself
	Elapsed float64 // seconds; of pass, fail and skip
	Output  string
	// FailedBuild is the ImportPath of the build that kept the package from being tested.
	FailedBuild string
	// ImportPath is what was being built, on build-output and build-fail.
	ImportPath string
	Key, Value string // attr
	Path       string // artifacts

	// Raw is the line as it stood in the stream, terminator included. It belongs to the event.
	Raw []byte `json:"-"`
	// Plain says that the line was no event: something wrote to go test's stdout. Output holds it.
	Plain bool `json:"-"`
}

// building reports whether the event is of a build. What go does for all of them (-x, -n) has no ImportPath.
func (ev *Event) building() bool {
	return ev.ImportPath != "" || ev.Action == ActionBuildOutput || ev.Action == ActionBuildFail
}

// maxLine bounds one line of the stream. go test cuts the output of tests into far shorter pieces; what is longer is plain
// text, and is handed on in pieces of this size.
const maxLine = 1 << 20

// Scan reads events from r until its end and hands each to fn, in order. A line that is no event becomes one with Plain set:
// it is output, never an error. The error is the reader's, if it had one besides io.EOF.
func Scan(r io.Reader, fn func(*Event)) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(br)
		if len(line) > 0 {
			fn(ParseEvent(line))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine returns a fresh copy of the next line, cut at maxLine.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := br.ReadSlice('\n')
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) >= maxLine {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return line, err
		}
	}
}

// ParseEvent reads one line. It keeps line as the event's Raw.
func ParseEvent(line []byte) *Event {
	ev := &Event{Raw: line}
	text := bytes.TrimSpace(line)
	if len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, ev); err == nil && ev.Action != "" && (ev.Package != "" || ev.building()) {
			return ev
		}
	}
	return &Event{Action: ActionOutput, Output: string(bytes.ToValidUTF8(line, []byte("\uFFFD"))), Plain: true, Raw: line}
}
