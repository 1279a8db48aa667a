package m3test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/m3-go/m3/internal/judging"
)

// go test -fuzz calls the fuzz target in worker processes, which the test process starts from its own binary with its own arguments and
// its environment as it is then: without m3's variables. They get the settings by one of its own, which nobody else looks at.

// envWorker holds the settings for the workers of a fuzzing process.
const envWorker = "M3_INTERNAL_FUZZ"

// workerSettings is what a worker shares with the process that started it.
type workerSettings struct {
	Database string
	RunID    string
	Joined   bool
	Suite    string
	Judge    judging.Settings
}

// shareWithWorkers takes over what a fuzzing process left in handed, or leaves it itself.
func (s *settings) shareWithWorkers(handed string) {
	var w workerSettings
	switch args := os.Args[1:]; {
	case slices.Contains(args, "-test.fuzzworker"):
		if json.Unmarshal([]byte(handed), &w) == nil {
			s.database, s.runID, s.joined, s.suite, s.judge = w.Database, w.RunID, w.Joined, w.Suite, w.Judge
			judging.Adopt(s.judge)
		}
	case fuzzing(args):
		w.Judge = s.judge
		if w.Database = orElse(databaseOf(args), s.database); w.Database == "" && w.Judge == (judging.Settings{}) {
			return
		}
		s.runID = newProcess(*s).runID() // the workers have another parent: they would not find it
		w.RunID, w.Joined, w.Suite = s.runID, s.joined, s.suite
		b, err := json.Marshal(w)
		if err == nil { // strings and a boolean
			os.Setenv(envWorker, string(b))
		}
	}
}

func fuzzing(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		pattern, ok := strings.CutPrefix(arg, "-test.fuzz=")
		return ok && pattern != ""
	})
}
