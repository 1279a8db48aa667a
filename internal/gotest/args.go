package gotest

import (
	"fmt"
	"os"
	"strings"
)

// UsageError says that a command line cannot be run as it is.
type UsageError struct {
	Flag string // the offending flag, empty when it is none
	Text string
}

func (e *UsageError) Error() string { return e.Text }

// Args is a command line for go test, sorted by what each part is for.
type Args struct {
	Chdir    string   // -C
	Flags    []string // those of the go command, in order
	Packages []string // in order, from both sides of --
	Unknown  []string // flags that the go command does not know, for the test binary
	Binary   []string // what stood after -args
	// Verbose says that -v was given.
	Verbose bool
}

// refused are the flags of go test that would take the run out of m3's hands, each with the reason.
var refused = map[string]string{
	"json":  "m3 test reads go test's -json itself; the results are in feedback.json and in the database",
	"exec":  "m3 test must start the test processes itself to record them and to end them",
	"c":     "it only compiles: use go test -c",
	"o":     "it keeps the test binary, and m3 test runs nothing by hand: use go test -c -o",
	"m3.db": "m3 test records into one database and reports from it: name it with --results-db",
}

// boolFlags and valueFlags are the flags of go test (go 1.26) that are not in refused. Which of them takes its value from the
// next argument decides what is a package.
var (
	boolFlags = set(`a n x race msan asan cover v work linkshared modcacherw trimpath buildvcs artifacts benchmem failfast fullpath short`)
	// valueFlags take the next argument when they have no "=".
	valueFlags = set(`C p covermode coverpkg coverprofile asmflags buildmode compiler gccgoflags gcflags installsuffix ldflags mod modfile
		overlay pgo pkgdir tags toolexec debug-actiongraph debug-runtime-trace debug-trace vet bench benchtime blockprofile
		blockprofilerate count cpu cpuprofile fuzz fuzzminimizetime fuzztime list memprofile memprofilerate mutexprofile
		mutexprofilefraction outputdir parallel run shuffle skip timeout trace`)
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// ParseArgs sorts what stood on both sides of -- on m3 test's command line: before it packages only, after it packages and
// flags of go test, in any order. As in go test, what follows a flag that the go command does not know is taken for its value
// unless the flag has one after "=", and what follows -args is the test binary's.
//
// The errors are *UsageError.
func ParseArgs(before, after []string) (*Args, error) {
	a := &Args{}
	for _, arg := range before {
		if strings.HasPrefix(arg, "-") {
			return nil, &UsageError{arg, "unknown flag: " + arg}
		}
		a.Packages = append(a.Packages, arg)
	}
	for len(after) > 0 {
		n, err := a.take(after)
		if err != nil {
			return nil, err
		}
		after = after[n:]
	}
	return a, checkGoFlags(os.Getenv("GOFLAGS"))
}

// take sorts the first of args and what belongs to it, and returns how many it used.
func (a *Args) take(args []string) (int, error) {
	arg := args[0]
	name, _, hasValue := splitFlag(arg)
	switch {
	case arg == "":
		return 0, &UsageError{"", "an empty argument stands where a package or a flag of go test belongs"}
	case name == "": // "-" alone is no flag for go either
		a.Packages = append(a.Packages, arg)
		return 1, nil
	case name == "args" || arg == "--":
		for _, arg := range args[1:] {
			if name, _, _ := splitFlag(arg); name == "m3.db" {
				return 0, refusal(arg, name)
			}
		}
		a.Binary = append(a.Binary, args[1:]...)
		return len(args), nil
	case refused[name] != "":
		return 0, refusal(arg, name)
	case boolFlags[name] || name == "v":
		a.Verbose = a.Verbose || name == "v" && !strings.HasSuffix(arg, "=false")
		a.Flags = append(a.Flags, arg)
		return 1, nil
	case valueFlags[name]:
		return a.takeValue(args, name, hasValue)
	}
	a.Unknown = append(a.Unknown, arg)
	if !hasValue && len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		a.Unknown = append(a.Unknown, args[1])
		return 2, nil
	}
	return 1, nil
}

func refusal(arg, name string) error {
	return &UsageError{arg, "-" + name + " cannot be given to m3 test: " + refused[name]}
}

func (a *Args) takeValue(args []string, name string, hasValue bool) (int, error) {
	n := 1
	if !hasValue {
		if n = 2; len(args) < 2 {
			return 0, &UsageError{args[0], "go test's " + args[0] + " needs a value"}
		}
	}
	if name != "C" { // -C must stand first: see Command
		a.Flags = append(a.Flags, args[:n]...)
		return n, nil
	}
	if a.Chdir != "" {
		return 0, &UsageError{args[0], "-C is given twice"}
	}
	_, value, _ := splitFlag(args[0])
	if a.Chdir = value; !hasValue {
		a.Chdir = args[1]
	}
	return n, nil
}

// splitFlag returns the name of a flag without dashes and without the test. that go test allows; empty when arg is none.
func splitFlag(arg string) (name, value string, hasValue bool) {
	name = strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	if name == arg || name == "" {
		return "", "", false
	}
	name, value, hasValue = strings.Cut(name, "=")
	return strings.TrimPrefix(name, "test."), value, hasValue
}

// Has reports whether the go command was given the flag.
func (a *Args) Has(name string) bool {
	for i := 0; i < len(a.Flags); i++ {
		n, _, hasValue := splitFlag(a.Flags[i])
		if n == name {
			return true
		}
		if valueFlags[n] && !hasValue {
			i++
		}
	}
	return false
}

// Command is the whole command line after "go". It adds -json, and -count=1 and -timeout=0 where none was given: a cached
// result would be an old run's, and m3test ends what hangs before go's own deadline would.
func (a *Args) Command() []string {
	cmd := []string{"test"}
	if a.Chdir != "" {
		cmd = append(cmd, "-C="+a.Chdir)
	}
	cmd = append(cmd, "-json")
	if !a.Has("count") {
		cmd = append(cmd, "-count=1")
	}
	if !a.Has("timeout") {
		cmd = append(cmd, "-timeout=0")
	}
	cmd = append(append(append(cmd, a.Flags...), a.Packages...), a.Unknown...)
	if len(a.Binary) > 0 {
		cmd = append(append(cmd, "-args"), a.Binary...)
	}
	return cmd
}

// checkGoFlags refuses in GOFLAGS what is refused on the command line.
func checkGoFlags(goflags string) error {
	for f := range strings.FieldsSeq(goflags) {
		name, _, _ := splitFlag(strings.Trim(f, `'"`))
		if reason := refused[name]; reason != "" {
			return &UsageError{f, fmt.Sprintf("GOFLAGS holds %s, which cannot be given to m3 test: %s", f, reason)}
		}
	}
	return nil
}
