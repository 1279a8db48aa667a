package m3test

import (
	"context"
	"io"
	"time"
)

// T is what m3test needs of a *testing.T; a *testing.B has it too.
type T interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	Failed() bool
	Skipped() bool
	FailNow()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	// Attr puts an attribute of the test into go test's output.
	Attr(key, value string)
	// ArtifactDir is where files about the test are kept when go test was told -artifacts.
	ArtifactDir() string
	// Output writes lines into the test's output.
	Output() io.Writer
}

// deadliner is what a *testing.T has besides, and a *testing.B has not.
type deadliner interface {
	Deadline() (time.Time, bool)
}
