package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/m3-go/m3/internal/report"
)

// jsonCommand is the script command "json FILE PATH WANT": the value at PATH (members and indexes with dots between) of the
// JSON in FILE, written as fmt.Sprint does, is WANT. With !, it is not.
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH WANT")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, step := range strings.Split(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			if step == "len" {
				v = len(x)
				continue
			}
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(x) {
				ts.Fatalf("%s: no element %s of %d", args[1], step, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("%s: nothing below %v", args[1], v)
		}
	}
	if got := fmt.Sprint(v); (got == args[2]) == neg {
		ts.Fatalf("%s of %s is %s, want %s (negated: %v)", args[1], args[0], got, args[2], neg)
	}
}

// latestCommand is "latest FILE": the newest feedback.json of the project in the current folder, copied to FILE.
func latestCommand(ts *testscript.TestScript, neg bool, args []string) {
	paths, err := filepath.Glob(ts.MkAbs(".m3/reports/*/feedback.json"))
	ts.Check(err)
	if neg || len(args) != 1 || len(paths) == 0 {
		ts.Fatalf("usage: latest FILE (and there are %d)", len(paths))
	}
	slices.Sort(paths) // run ids are in the order of time
	b, err := os.ReadFile(paths[len(paths)-1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// showCommand is "show TEST FILE [flags]": m3 show for the first execution of the failed TEST in a feedback.json.
func showCommand(ts *testscript.TestScript, neg bool, args []string) {
	var f report.Feedback
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &f))
	for _, failure := range f.Failures {
		if failure.Test == args[0] && len(failure.Executions) > 0 {
			ts.Check(ts.Exec("m3", append([]string{"show", string(failure.Executions[0])}, args[2:]...)...))
			return
		}
	}
	ts.Fatalf("no execution of a failed %s in %s", args[0], args[1])
}

// baselineCommand is "baseline FILE [flags and packages]": m3 test compared with the run of a feedback.json.
func baselineCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: baseline FILE [flags and packages]")
	}
	var f report.Feedback
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &f))
	ts.Check(ts.Exec("m3", append([]string{"test", "--baseline", f.RunID}, args[1:]...)...))
}

// jsonlCommand is "jsonl FILE TYPE...": FILE holds JSON objects, one a line, whose types are these, those of one kind in any order and number.
func jsonlCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: jsonl FILE TYPE...")
	}
	var got []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var v struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.Type == "" {
			ts.Fatalf("%q is no line of the stream: %v", line, err)
		}
		got = append(got, v.Type)
	}
	want := slices.Compact(slices.Sorted(slices.Values(args[1:])))
	if have := slices.Compact(slices.Sorted(slices.Values(got))); !slices.Equal(want, have) || got[0] != args[1] || got[len(got)-1] != args[len(args)-1] {
		ts.Fatalf("the lines are %v, want %v", got, args[1:])
	}
}

// commandsCommand is "commands FILE": of the lines of FILE that GitHub Actions would read as commands, all are m3's own.
func commandsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: commands FILE")
	}
	stopped, read := "", 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case stopped != "":
			if line == "::"+stopped+"::" {
				stopped = ""
			}
		case strings.HasPrefix(line, "::stop-commands::"):
			stopped = strings.TrimPrefix(line, "::stop-commands::")
		case strings.HasPrefix(line, "::error ") || strings.HasPrefix(line, "::warning "):
			read++
		case strings.HasPrefix(line, "::") || strings.HasPrefix(line, "##["):
			ts.Fatalf("%q would be read as a command", line)
		}
	}
	if stopped != "" || read == 0 {
		ts.Fatalf("%d commands of m3's own, and the part without commands ended: %v", read, stopped == "")
	}
}
