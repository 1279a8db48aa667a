package m3test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/m3-go/m3/internal/judging"
	"github.com/m3-go/m3/internal/runner"
)

// The variables that ask for recording. m3 test sets all of them.
const (
	envDatabase = "M3_RESULTS_DB"
	envRunID    = "M3_RUN_ID"
	envSuite    = "M3_SUITE"
)

// std is the process that the tests run in.
var std = newProcess(settings{})

// init is one of the two places in m3 with an effect at start: it defines -m3.db, which must exist before testing parses the
// command line, and takes m3's variables out of the environment before anything can inherit them. In a program that is no test
// binary it does nothing.
func init() {
	if !testing.Testing() {
		return
	}
	std = newProcess(takeSettings())
	runner.Provide(std.defaults)
	flag.StringVar(&std.settings.database, "m3.db", std.settings.database,
		"record executions for the m3 database at `path` (relative to the module's root)")
}

// settings is what the process was started with.
type settings struct {
	database string // empty: nothing is recorded
	runID    string // of the run that somebody else made; empty: a run of our own
	joined   bool   // that was m3 test, which knows when its run ends
	suite    string // the only suite whose tests run; empty: all
	judge    judging.Settings
	dir      string // the working directory, before any test changed it
	root     string // the directory of the module's go.mod; empty outside a module
	pkg      string // the package's import path
	module   string // the module's path
}

func takeSettings() settings {
	take := func(name string) string {
		value := strings.TrimSpace(os.Getenv(name))
		os.Unsetenv(name)
		return value
	}
	s := settings{database: take(envDatabase), runID: take(envRunID), suite: take(envSuite)}
	s.joined = s.runID != ""
	s.judge = judging.Take()
	s.dir, _ = os.Getwd() // without it paths stay as they are
	s.root = moduleRoot(s.dir)
	s.pkg, s.module = identity()
	s.shareWithWorkers(take(envWorker))
	if s.database != "" {
		dropTestLog()
	}
	return s
}

// moduleRoot is the nearest directory above dir with a go.mod: go test runs a package's tests in its own directory.
func moduleRoot(dir string) string {
	if dir == "" {
		return ""
	}
	for {
		if info, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && info.Mode().IsRegular() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// identity is the import path of the package under test and its module, as the linker wrote them down.
func identity() (pkg, module string) {
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg, module = strings.TrimSuffix(info.Path, ".test"), info.Main.Path
	}
	if pkg == "" || pkg == "command-line-arguments" {
		pkg = strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	}
	return pkg, module
}

// databasePath is the database as an absolute path; what is relative is so to the module's root.
func (s *settings) databasePath() string {
	path := s.database
	if !flag.Parsed() { // a kit of TestMain's
		path = orElse(databaseOf(os.Args[1:]), path)
	}
	switch {
	case path == "" || filepath.IsAbs(path):
		return path
	case s.root != "":
		return filepath.Join(s.root, path)
	default:
		return filepath.Join(s.dir, path)
	}
}

// databaseOf is the value of -m3.db in arguments that were not parsed yet; empty when it is not there.
func databaseOf(args []string) string {
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return ""
		case name != "-m3.db" && name != "--m3.db":
		case given:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// showCommand is how m3 opens a trace of the database: without a path where it looks by itself, in the project's own.
func (s *settings) showCommand() string {
	path := s.databasePath()
	own := filepath.Join(".m3", "executions.sqlite")
	if project, ok := strings.CutSuffix(path, string(filepath.Separator)+own); ok && (s.dir == project || strings.HasPrefix(s.dir, project+string(filepath.Separator))) {
		return "m3 show"
	}
	return "m3 show --results-db " + quoteForShell(path)
}

// quoteForShell quotes a word of a command that somebody will paste.
func quoteForShell(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:@,+") == "" && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// packageSuite is the suite of a package that names none: its path in the module.
func (s *settings) packageSuite() string {
	if rest, ok := strings.CutPrefix(s.pkg, s.module+"/"); ok && s.module != "" {
		return rest
	}
	return s.pkg
}
