package m3test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/store"
)

// enforce makes a process fail whose required evaluations did not pass or are not there, once its tests have ended. Under m3 test it does nothing:
// that looks at all processes of the run, when all they recorded is there.
func (p *process) enforce(code int, stderr io.Writer) int {
	if p.settings.joined || slices.Contains(os.Args[1:], "-test.fuzzworker") {
		return code
	}
	blocked := p.gate.Blocked()
	if len(blocked) == 0 {
		return code
	}
	fmt.Fprintf(stderr, "m3: %d required evaluation%s blocked the run:\n", len(blocked), plural(len(blocked)))
	for i := range blocked {
		if i == maxBlocked {
			fmt.Fprintf(stderr, "  and %d more\n", len(blocked)-i)
			break
		}
		fmt.Fprintf(stderr, "  %s\n", blocked[i].String())
		if id := blocked[i].Execution; id != "" && p.recorder() != nil {
			fmt.Fprintf(stderr, "    evidence: %s %s\n", p.settings.showCommand(), id)
		}
	}
	return max(code, 1)
}

// maxBlocked is how many blocked evaluations are told.
const maxBlocked = 20

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// remarkNoGate says once that nobody will look at what is required: without Main, nothing of this process runs after its last test.
func (p *process) remarkNoGate(stderr io.Writer) {
	if p.settings.joined || !p.gate.Any() {
		return
	}
	p.mu.Lock()
	said := p.gated
	p.gated = true
	p.mu.Unlock()
	if !said {
		fmt.Fprintln(stderr, "m3: evaluations are required here, and the gate that checks them at the end of the run did not run: "+
			"add func TestMain(m *testing.M) { m3test.Main(m, nil) } to the package, or run m3 test")
	}
}

// recordBlocked puts into the recording what blocks of kits that have a store of their own: there nobody else would see it.
func (a *attempt) recordBlocked() error {
	for _, b := range a.foreign.Blocked() {
		r := eval.Result{ID: uuid.NewString(), RunID: a.record.RunID, TestID: a.record.ID, Execution: b.Execution, Turn: b.Turn, Suite: b.Suite, Case: b.Case,
			Evaluator: b.Evaluator, Kind: eval.KindEvaluator, SubjectKind: "execution", SubjectDigest: eval.Digest([]byte(b.Execution)), Status: b.Status,
			Message: b.Message, Required: true, Created: time.Now().UTC()}
		if b.Status == eval.Missing {
			r.Status, r.Message = eval.NotRun, "it is required by the execution's options, and was not run"
		}
		if b.Evaluation != "" {
			r.Metadata = map[string]any{"of": b.Evaluation}
		}
		a.p.gate.Add(&r)
		if a.rec == nil {
			continue
		}
		if err := a.rec.Append(context.Background(), &store.Evaluation{Result: r}); err != nil {
			return err
		}
	}
	return nil
}
