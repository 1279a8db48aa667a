package gotest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var (
	update  = flag.Bool("update", false, "rewrite the golden files")
	capture = flag.Bool("capture", false, "rewrite testdata/streams with what the real toolchain says about testdata/modules")
)

// module is one of testdata/modules: files, and in the comment how go test is called on them.
type module struct {
	name   string
	args   []string
	cached bool
	ar     *txtar.Archive
}

func loadModules(t testing.TB) []module {
	t.Helper()
	paths, err := filepath.Glob("testdata/modules/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata/modules: %d files, %v", len(paths), err)
	}
	var ms []module
	for _, path := range paths {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := module{name: strings.TrimSuffix(filepath.Base(path), ".txtar"), ar: ar}
		for line := range strings.Lines(string(ar.Comment)) {
			if v, ok := strings.CutPrefix(line, "args: "); ok {
				m.args = strings.Fields(v)
			}
			m.cached = m.cached || strings.HasPrefix(line, "cached: true")
		}
		ms = append(ms, m)
	}
	return ms
}

// write lays the module out in a fresh directory.
func (m module) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := txtar.Write(m.ar, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCapture writes the streams anew, with -capture. It is the only way in which they are made.
func TestCapture(t *testing.T) {
	if !*capture {
		t.Skip("the streams are captured with -capture")
	}
	for _, m := range loadModules(t) {
		dir := m.write(t)
		runs := 1
		flags := []string{"test", "-json", "-trimpath", "-count=1"} // a later -count wins
		if m.cached {
			runs, flags = 2, flags[:3]
		}
		var out []byte
		for range runs {
			cmd := exec.Command("go", append(flags, m.args...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOFLAGS=")
			out, _ = cmd.Output() // it fails where its tests do
		}
		out = bytes.ReplaceAll(out, []byte(dir), []byte("/module"))
		if err := os.WriteFile("testdata/streams/"+m.name+".jsonl", out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	for _, m := range loadModules(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			stream, err := os.ReadFile("testdata/streams/" + m.name + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, "testdata/streams/"+m.name+".golden", describe(t, stream))
		})
	}
}

// describe writes down the model and the items of a stream, without its times.
func describe(t *testing.T, stream []byte) string {
	t.Helper()
	var r Result
	var raw bytes.Buffer
	var b strings.Builder
	err := Scan(bytes.NewReader(stream), func(ev *Event) {
		raw.Write(ev.Raw)
		for _, it := range r.Items("run", r.Add(ev), nil) {
			fmt.Fprintf(&b, "item %s %s #%d %q test_id=%q cached=%v reason=%q output=%d lines\n", it.Package, it.Test, it.Iteration,
				it.Action, it.TestID, it.Cached, it.Reason, strings.Count(it.Output, "\n"))
		}
	})
	if err != nil || !bytes.Equal(raw.Bytes(), stream) {
		t.Fatalf("the events' raw bytes differ from the stream (%v)", err)
	}
	for _, it := range r.OpenItems("run", r.Close("go test ended"), nil) {
		fmt.Fprintf(&b, "open %s %s #%d %q reason=%q\n", it.Package, it.Test, it.Iteration, it.Action, it.Reason)
	}
	for _, p := range r.Packages {
		records := r.Records("run", p, nil)
		if last := records[len(records)-1]; len(records) != len(p.Tests)+1 || last.Test != "" || last.Action != p.Action {
			t.Errorf("the records of %s are %+v", p.Path, records)
		}
		for _, it := range records {
			if it.Cached {
				fmt.Fprintf(&b, "record %s %s #%d %q cached\n", it.Package, it.Test, it.Iteration, it.Action)
			}
		}
		fmt.Fprintf(&b, "package %s %s build=%q\n", p.Path, p.Action, p.FailedBuild)
		for _, ts := range p.Tests {
			fmt.Fprintf(&b, "  %s #%d %s executions=%v artifacts=%d suite=%q\n", ts.Name, ts.Iteration, ts.Action, ts.Executions(),
				len(ts.Artifacts), ts.Attr(AttrSuite))
		}
	}
	fmt.Fprintf(&b, "failed builds %q, silent %d, plain %q\n", r.FailedBuilds, len(r.Silent()), r.Plain.String())
	return b.String()
}

func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
