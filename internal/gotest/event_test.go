package gotest

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestScanKeepsEveryByte(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxLine/2)
	in := "{\"Action\":\"start\",\"Package\":\"p\"}\r\n" + long + "\n\xff\xfe not json\n{\"Action\":\"output\"}\n{\"no\":1}\nno end"
	var raw []byte
	var plain, events int
	if err := Scan(strings.NewReader(in), func(ev *Event) {
		raw = append(raw, ev.Raw...)
		if ev.Plain {
			plain++
		} else {
			events++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if string(raw) != in {
		t.Errorf("%d bytes came through of %d", len(raw), len(in))
	}
	if events != 1 || plain != 6 { // the long line in two pieces
		t.Errorf("%d events and %d plain lines, want 1 and 6", events, plain)
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	var o Output
	for range 100_000 {
		o.add("a line of output\n")
	}
	o.add("the end\n")
	s := o.String()
	if len(s) > 3*maxOutput || !strings.HasPrefix(s, "a line of output\n") || !strings.HasSuffix(s, "the end\n") || o.Dropped() == 0 {
		t.Errorf("%d bytes kept, %d dropped", len(s), o.Dropped())
	}
	for line := range strings.Lines(s) {
		if line != "a line of output\n" && line != "the end\n" && !strings.Contains(line, "bytes not kept") {
			t.Fatalf("a line is cut: %q", line)
		}
	}
}

func TestItemsRedactBeforeCutting(t *testing.T) {
	t.Parallel()
	var r Result
	secret := "hunter2hunter2"
	redact := func(s string) string { return strings.ReplaceAll(s, secret, "[REDACTED]") }
	pad := strings.Repeat("x", maxItemReason-5)
	r.Add(&Event{Action: ActionRun, Package: "p", Test: "T"})
	r.Add(&Event{Action: ActionOutput, Package: "p", Test: "T", Output: "    a_test.go:1: " + pad + secret + "\n"})
	items := r.Items("run", r.Add(&Event{Action: ActionFail, Package: "p", Test: "T"}), redact)
	if len(items) != 1 {
		t.Fatalf("%d items", len(items))
	}
	if it := items[0]; strings.Contains(it.Reason+it.Output, "hunter") || len(it.Reason) > maxItemReason+len("…") {
		t.Errorf("reason %q output %q", it.Reason, it.Output)
	}
}

func TestLingering(t *testing.T) {
	t.Parallel()
	var r Result
	at := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for _, pkg := range []string{"done", "hangs", "runs"} {
		r.Add(&Event{Time: at, Action: ActionStart, Package: pkg})
	}
	r.Add(&Event{Time: at, Action: ActionOutput, Package: "done", Output: "PASS\n"})
	r.Add(&Event{Time: at, Action: ActionPass, Package: "done"})
	r.Add(&Event{Time: at, Action: ActionOutput, Package: "hangs", Output: "PASS\n"})
	if ps := r.Lingering(at.Add(time.Second), time.Minute); len(ps) != 0 {
		t.Errorf("too early: %d", len(ps))
	}
	if ps := r.Lingering(at.Add(time.Minute), time.Minute); len(ps) != 1 || ps[0].Path != "hangs" {
		t.Errorf("after a minute: %d", len(ps))
	}
	if ps := r.Lingering(at.Add(time.Hour), time.Minute); len(ps) != 0 {
		t.Errorf("told twice: %d", len(ps))
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T\",\"Elapsed\":1}\nx"))
	f.Add([]byte("{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"T\",\"Output\":\"ok  \\tp\\t\"}\n{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T\"}\n"))
	f.Add([]byte("{\"Action\":\"fail\",\"Package\":\"p\",\"FailedBuild\":\"q\"}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r Result
		var raw []byte
		if err := Scan(bytes.NewReader(in), func(ev *Event) {
			raw = append(raw, ev.Raw...)
			r.Items("run", r.Add(ev), nil)
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(raw, in) {
			t.Fatalf("raw bytes differ: %q", raw)
		}
		r.OpenItems("run", r.Close("ended"), nil)
	})
}
