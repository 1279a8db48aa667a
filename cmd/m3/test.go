package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/m3-go/m3/internal/gotest"
)

// testFlags are m3 test's own.
type testFlags struct {
	resultsDB dbFlag
	envFile   string
	suite     string
	suiteSet  bool
	junit     string
	json      bool
	judgeMax  countFlag
	timeout   seconds
	baseline  string
	margin    float64
}

func (c *cli) testCommand() *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test [flags] [packages] [-- packages and go test flags]",
		Short: "Run go test, and keep what the tests saw",
		Long: `Run go test, and keep what the tests saw.

Packages may stand before or after --; flags of go test stand after it. -count=1 is
added when there is no -count, so a result is never an old one, and -timeout 0 when
there is no -timeout: m3 ends what hangs by its own deadlines.

The exit code is go test's; 1 also that a required evaluation did not pass or is
missing; 2 that m3 could not do its part; 130 Ctrl-C, 143 SIGTERM.`,
		Example: "  m3 test ./...\n  m3 test ./shipping -- -run TestQuote -v",
		RunE: func(cmd *cobra.Command, args []string) error {
			before, after := args, []string(nil)
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				before, after = args[:n], args[n:]
			}
			f.suiteSet = cmd.Flags().Changed("suite")
			if err := f.checkBaseline(cmd.Flags().Changed("baseline"), cmd.Flags().Changed("baseline-margin")); err != nil {
				return err
			}
			return c.test(cmd.Context(), &f, before, after)
		},
	}
	cmd.Flags().Var(&f.resultsDB, "results-db", "database to record into (default .m3/executions.sqlite of the project)")
	cmd.Flags().StringVar(&f.envFile, "env-file", "", "file of NAME=VALUE lines for the tests; what the environment has wins")
	cmd.Flags().StringVar(&f.suite, "suite", "", "run only the tests of this suite")
	cmd.Flags().StringVar(&f.junit, "junit", "", "file to write the run to as JUnit XML")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the results as JSON lines instead of text")
	cmd.Flags().Var(&f.judgeMax, "judge-max-requests", "the most requests that judges may make in the whole run, retries included")
	cmd.Flags().Var(&f.timeout, "execution-timeout", "deadline of agents' actions and turns that name none: seconds, or 90s (default 180s)")
	cmd.Flags().StringVar(&f.baseline, "baseline", "", "id of an earlier run in the same database to compare with")
	cmd.Flags().Float64Var(&f.margin, "baseline-margin", 5, "how many points two pass rates may lie apart and still be the same")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !strings.HasPrefix(err.Error(), "unknown ") {
			return &hintError{err: err, hint: cmd.CommandPath() + " --help lists the flags"}
		}
		return &hintError{err: err, hint: "flags of go test stand after --, as in: m3 test ./... -- -run TestQuote"}
	})
	return cmd
}

// test checks everything before anything is started, then runs.
func (c *cli) test(ctx context.Context, f *testFlags, before, after []string) error {
	args, err := gotest.ParseArgs(before, after)
	if err != nil {
		return &hintError{err: err, hint: "m3 test --help says what may stand where"}
	}
	suite := strings.TrimSpace(f.suite)
	if f.suiteSet && suite == "" {
		return hint("name it as the tests do, or leave --suite away", "--suite is blank")
	}
	env, err := withEnvFile(os.Environ(), c.path(f.envFile))
	if err != nil {
		return err
	}
	if env, err = f.judgeMax.into(env); err != nil {
		return err
	}
	if env, err = f.timeout.withTimeout(env); err != nil {
		return err
	}
	proj, err := findProject(c.path(orElse(args.Chdir, ".")))
	if errors.Is(err, errNoProject) {
		return &hintError{err: err, hint: "run m3 test inside a Go module"}
	}
	if err != nil {
		return err
	}
	db, err := c.resultsDB(f.resultsDB, proj)
	if err != nil {
		return hint("name another place with --results-db", "%w", err)
	}
	r := &testRun{c: c, args: args, env: env, suite: suite, proj: proj, db: db, show: showCommandLine(f.resultsDB),
		junit: c.path(f.junit), json: f.json, baseline: baseline{id: f.baseline, margin: f.margin / 100}}
	return r.guarded(ctx)
}

// path makes a path of the command line absolute; empty stays empty.
func (c *cli) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.dir, p)
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}
