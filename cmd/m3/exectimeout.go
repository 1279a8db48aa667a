package main

import (
	"strings"
	"time"

	"github.com/m3-go/m3/internal/runner"
)

// withTimeout gives the test processes the deadline of agents' actions: that of the flag, else what the environment has, which is checked here before anything
// starts.
func (s seconds) withTimeout(env []string) ([]string, error) {
	var out []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name != runner.EnvTimeout:
		case s != 0:
			continue
		default:
			if _, err := runner.ParseTimeout(value); err != nil {
				return nil, hint("set it right, unset it, or give --execution-timeout", "the environment variable %s: %w", runner.EnvTimeout, err)
			}
		}
		out = append(out, kv)
	}
	if s != 0 {
		out = append(out, runner.EnvTimeout+"="+time.Duration(s).String())
	}
	return out, nil
}
