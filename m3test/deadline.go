package m3test

import (
	"fmt"
	"time"

	"github.com/m3-go/m3/internal/runner"
)

// timeoutFlag is -m3.execution-timeout, which begins with what the environment says. What that says wrong is told by the first kit.
type timeoutFlag struct {
	text string
	d    time.Duration
	err  error
}

func newTimeoutFlag(text string) timeoutFlag {
	f := timeoutFlag{text: text}
	if f.d, f.err = runner.ParseTimeout(text); f.err != nil {
		f.err = fmt.Errorf("%s is %q: %w", runner.EnvTimeout, text, f.err)
	}
	return f
}

// String is the value.
func (f *timeoutFlag) String() string { return f.text }

// Set takes the value of the command line, which wins.
func (f *timeoutFlag) Set(text string) error {
	d, err := runner.ParseTimeout(text)
	if err == nil && d == 0 {
		err = fmt.Errorf("it is empty: leave the flag away for the default of 180 s")
	}
	if err == nil {
		*f = timeoutFlag{text: text, d: d}
	}
	return err
}
