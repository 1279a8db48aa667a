package judging

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// The variables by which a process learns of its run's budget.
const (
	// EnvLimit is the number of requests that judges may make in the whole run.
	EnvLimit = "M3_JUDGE_MAX_REQUESTS"
	// EnvDir is the directory with the run's counters. Only m3 test sets it.
	EnvDir = "M3_INTERNAL_JUDGE_DIR"
)

// The counters' files in a directory that belongs to the run and is removed with it. They begin with a dot, and so are no spools.
const (
	runCounter = ".judge-requests"
	kitCounter = ".judge-requests-of-kits"
)

// Settings are what a process is told of its run's budget, as texts: they are checked by who uses them.
type Settings struct {
	Limit string // EnvLimit
	Dir   string // EnvDir
}

// Run is what the processes of one m3 test, or of one go test, share.
type Run struct {
	// Budget is the whole run's; nil when it has no limit.
	Budget *Budget

	kits counter // what kits with a limit of their own have spent; nil when the process is alone
}

// Kit is the budget of a kit with a limit of its own, or without (nil). When the kit belongs to the run, its requests are counted together with those of
// the other such kits in all processes of the run; else it counts for itself. The run's budget holds in any case.
func (r *Run) Kit(limit *int, joined bool) *Budget {
	switch {
	case limit == nil:
		return r.Budget
	case joined && r.kits != nil:
		return (&Budget{counter: r.kits, limit: *limit}).Within(r.Budget)
	default:
		return Local(*limit).Within(r.Budget)
	}
}

// process is the run of this process. It is the process's, because a budget that each kit counted for itself would be none.
var process struct {
	mu    sync.Mutex
	known bool
	run   *Run
	err   error
}

// Process is the run that this process belongs to; never nil. The error says that the limit is no number, and how to write it, or that there is a limit and
// no place to count. Without [Take] the environment says what it is, at the first call.
func Process() (*Run, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	if !process.known {
		process.known = true
		process.run, process.err = environment().run(executable())
	}
	return process.run, process.err
}

// Take makes the environment's settings those of the process, and takes them out of the environment, so that servers and nested runs do not
// inherit them.
func Take() Settings {
	s := environment()
	os.Unsetenv(EnvLimit)
	os.Unsetenv(EnvDir)
	Adopt(s)
	return s
}

// Adopt makes s the settings of the process.
func Adopt(s Settings) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.known = true
	process.run, process.err = s.run(executable())
}

func environment() Settings {
	return Settings{Limit: os.Getenv(EnvLimit), Dir: os.Getenv(EnvDir)}
}

func executable() string {
	path, _ := os.Executable() // without it the process is alone
	return path
}

// run is the run that the settings describe to the executable.
func (s Settings) run(exe string) (*Run, error) {
	limit, err := ParseLimit(s.Limit)
	if err != nil {
		return &Run{}, fmt.Errorf("%s: %w", EnvLimit, err)
	}
	dir := s.Dir
	if dir == "" {
		if dir = goWork(exe); dir != "" {
			err = CreateIn(dir)
		}
	}
	switch {
	case err != nil && limit != nil: // alone it would not be the run's budget
		return &Run{}, fmt.Errorf("the counter of judge requests cannot be made: %w", err)
	case err == nil && dir != "":
		r := &Run{kits: file(filepath.Join(dir, kitCounter))}
		if limit != nil {
			r.Budget = Shared(filepath.Join(dir, runCounter), *limit)
		}
		return r, nil
	case limit != nil:
		return &Run{Budget: Local(*limit)}, nil
	default:
		return &Run{}, nil
	}
}

// CreateIn makes the counters in a directory. Those that are there already stay as they are.
func CreateIn(dir string) error {
	return errors.Join(Create(filepath.Join(dir, runCounter)), Create(filepath.Join(dir, kitCounter)))
}

// ParseLimit reads a limit: a whole number, 0 for no request at all. Nothing is no limit (nil).
func ParseLimit(text string) (*int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%.40q is not a number of requests: write a whole number, 0 for none", text)
	}
	return &n, nil
}

// goWork is the directory in which the go command builds and runs the tests of one go test; empty when the process is no test that go runs.
// Go makes a fresh one for each invocation and removes it at the end: $WORK/b001/shipping.test (go 1.26, cmd/go/internal/work).
func goWork(exe string) string {
	step := filepath.Dir(exe)
	work := filepath.Dir(step)
	number, isStep := strings.CutPrefix(filepath.Base(step), "b")
	_, err := strconv.Atoi(number)
	if !isStep || err != nil || !strings.HasSuffix(exe, ".test") || !strings.HasPrefix(filepath.Base(work), "go-build") {
		return ""
	}
	return work
}
