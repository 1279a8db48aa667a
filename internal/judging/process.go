package judging

import (
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
	// EnvCounter is the file of the run's counter. Only m3 test sets it.
	EnvCounter = "M3_INTERNAL_JUDGE_COUNTER"
)

// counterName is the counter's file in a directory that belongs to the run. It begins with a dot, and so is no spool.
const counterName = ".judge-requests"

// CounterIn is the counter's file in a directory that belongs to the run and is removed with it.
func CounterIn(dir string) string { return filepath.Join(dir, counterName) }

// Settings are what a process is told of its run's budget, as texts: they are checked by who uses them.
type Settings struct {
	Limit   string // EnvLimit
	Counter string // EnvCounter
}

// process is the budget of this process. It is the process's, because a budget that each kit counted for itself would be none.
var process struct {
	mu     sync.Mutex
	known  bool
	budget *Budget
	err    error
}

// Process is the budget that this process shares with the others of its run: of one m3 test, or of one go test. It is nil when there is
// neither a limit nor a run that it belongs to. The error says that the limit is no number, and how to write it. Without [Take] the environment
// says what it is, at the first call.
func Process() (*Budget, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	if !process.known {
		process.known = true
		process.budget, process.err = environment().budget(executable())
	}
	return process.budget, process.err
}

// Take makes the environment's settings those of the process, and takes them out of the environment, so that servers and nested runs do not
// inherit them.
func Take() Settings {
	s := environment()
	os.Unsetenv(EnvLimit)
	os.Unsetenv(EnvCounter)
	Adopt(s)
	return s
}

// Adopt makes s the settings of the process.
func Adopt(s Settings) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.known = true
	process.budget, process.err = s.budget(executable())
}

func environment() Settings {
	return Settings{Limit: os.Getenv(EnvLimit), Counter: os.Getenv(EnvCounter)}
}

func executable() string {
	path, _ := os.Executable() // without it the process is alone
	return path
}

// budget is the budget that the settings make for the executable.
func (s Settings) budget(exe string) (*Budget, error) {
	limit, err := ParseLimit(s.Limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvLimit, err)
	}
	if s.Counter != "" {
		return Shared(s.Counter, limit), nil
	}
	if dir := goWork(exe); dir != "" {
		path := CounterIn(dir)
		if err = Create(path); err == nil {
			return Shared(path, limit), nil
		}
	}
	if err != nil && limit != nil { // alone it would not be the run's budget
		return nil, fmt.Errorf("the counter of judge requests cannot be made: %w", err)
	}
	if limit == nil {
		return nil, nil
	}
	return Local(limit), nil
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
