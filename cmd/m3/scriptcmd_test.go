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
