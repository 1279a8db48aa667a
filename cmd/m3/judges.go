package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/m3-go/m3/internal/judging"
	"github.com/m3-go/m3/store/spool"
)

// countFlag is the value of --judge-max-requests. Nil is no limit, and not the same as 0.
type countFlag struct{ n *int }

// String is the number, empty when there is none.
func (f *countFlag) String() string {
	if f.n == nil {
		return ""
	}
	return strconv.Itoa(*f.n)
}

// Type is the placeholder in the usage.
func (f *countFlag) Type() string { return "N" }

// Set takes the number of the command line.
func (f *countFlag) Set(text string) (err error) {
	if f.n, err = judging.ParseLimit(text); err == nil && f.n == nil {
		err = fmt.Errorf("it is empty: write a whole number, or leave the flag away for no limit")
	}
	return err
}

// into gives the test processes the limit: that of the flag, else what the environment has, which is checked here before anything starts.
func (f *countFlag) into(env []string) ([]string, error) {
	var out []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if name != judging.EnvLimit {
			out = append(out, kv)
			continue
		}
		if f.n != nil {
			continue
		}
		if _, err := judging.ParseLimit(value); err != nil {
			return nil, hint("set it right, unset it, or give --judge-max-requests", "the environment variable %s: %w", judging.EnvLimit, err)
		}
		out = append(out, kv)
	}
	if f.n != nil {
		out = append(out, judging.EnvLimit+"="+f.String())
	}
	return out, nil
}

// holdJudges makes the counters of the run's judge requests, in the run's directory beside the database, and keeps that until the run ends: between two
// packages there may be no spool in it.
func (r *testRun) holdJudges(ctx context.Context) (err error) {
	if r.hold, err = spool.HoldRun(ctx, r.db, r.id); err != nil {
		return err
	}
	if err := judging.CreateIn(r.hold.Dir()); err != nil {
		r.hold.Release()
		return fmt.Errorf("the counters of judge requests cannot be made: %w", err)
	}
	return nil
}
