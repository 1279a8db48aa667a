package m3

import (
	"context"
	"reflect"
	"sync"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/judging"
)

// judges is what a kit knows of the judges that it has asked.
type judges struct {
	mu     sync.Mutex
	byName map[string]string // the digest of each judge, by the name under which it was asked
	told   map[string]bool   // variables of keys that OnSecret knows
	once   sync.Once
	host   *judging.Host
}

// The parts of a judge that are looked for: judge.LLM has both.
type (
	checked   interface{ Check() error }
	identical interface{ Digest() string }
)

// admitJudge refuses a judge that cannot work, and one that is to judge under the name of another: their rows could not be told apart.
func (k *Kit) admitJudge(operation, name string, judge eval.Judge) error {
	if v := reflect.ValueOf(judge); v.Kind() == reflect.Pointer && v.IsNil() {
		return validationf("%s: the judge is a nil %T", operation, judge)
	}
	if c, ok := judge.(checked); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	d, ok := judge.(identical)
	if !ok {
		return nil
	}
	digest := d.Digest()
	k.judges.mu.Lock()
	defer k.judges.mu.Unlock()
	if before, asked := k.judges.byName[name]; asked && before != digest {
		return validationf("%s: %q is the name of a judge with another configuration: choose another name for this one", operation, name)
	}
	if k.judges.byName == nil {
		k.judges.byName = map[string]string{}
	}
	k.judges.byName[name] = digest
	return nil
}

// judging returns a context in which the judges that an evaluator asks find the kit: they spend from its budget, and it learns their keys before they use
// them, so that it can keep them out of everything.
func (k *Kit) judging(ctx context.Context) context.Context {
	k.judges.once.Do(func() {
		run, err := judging.Process()
		k.judges.host = &judging.Host{Budget: run.Kit(k.cfg.JudgeMaxRequests, k.cfg.JoinRun), Err: err, Secret: k.judgeSecret}
	})
	return judging.WithHost(ctx, k.judges.host)
}

// judgeSecret learns the key of a judge.
func (k *Kit) judgeSecret(variable, value string) {
	_ = k.redactor.Add(variable, value) // judges refuse what is too short
	k.judges.mu.Lock()
	told := k.judges.told[variable]
	if k.judges.told == nil {
		k.judges.told = map[string]bool{}
	}
	k.judges.told[variable] = true
	k.judges.mu.Unlock()
	if !told && k.cfg.OnSecret != nil {
		k.cfg.OnSecret(variable)
	}
}
