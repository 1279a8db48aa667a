package model

import (
	"fmt"
	"sync"
)

// progress is how far one execution is in a script. Steps for different roles are in lanes of their own.
type progress struct {
	script Script
	lanes  map[string][]int // the indexes of the steps for a role

	mu       sync.Mutex
	at       map[string]int // the position in the lane
	times    []int          // how often each step answered
	broken   string         // why no further step is given; "" while all is well
	problems []Problem
	answers  int // for ids
	sides    int
}

func newProgress(s Script) *progress {
	p := &progress{script: s, lanes: map[string][]int{}, at: map[string]int{}, times: make([]int, len(s))}
	for i, step := range s {
		p.lanes[step.roleOrTurn()] = append(p.lanes[step.roleOrTurn()], i)
	}
	return p
}

// taken is a step on its way to the agent.
type taken struct {
	step  *Step
	label string // for the record; "" when it is no step of the script
	id    string
	calls []offered
}

// take gives a request its step. A request of a side role gets m3's own answer when the script has no step for it. The error is what to tell the agent when the script
// and the request do not agree.
func (p *progress) take(role string, req *request, names *namer) (*taken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lane, at := p.lanes[role], p.at[role]
	if role != RoleTurn && at >= len(lane) {
		p.sides++
		s := sideStep(role, req)
		return p.taken(&s, "", fmt.Sprintf("s%d", p.sides), names, req)
	}
	if p.broken != "" {
		return nil, fmt.Errorf("the script is over: %s", p.broken)
	}
	if at >= len(lane) {
		return nil, p.fail(Problem{Kind: ProblemSurplus, Message: fmt.Sprintf("the agent asked for an answer after the last of %s", count(len(lane), "step"))})
	}
	i := lane[at]
	step := &p.script[i]
	problem := Problem{Step: i + 1, Name: step.String()}
	if msg := step.when.unmet(req, names); msg != "" {
		problem.Kind, problem.Message = ProblemUnmet, msg
		return nil, p.fail(problem)
	}
	t, err := p.taken(step, fmt.Sprintf("step %d (%s)", i+1, step), fmt.Sprint(p.answers+1), names, req)
	if err != nil {
		problem.Kind, problem.Message = ProblemTool, err.Error()
		return nil, p.fail(problem)
	}
	p.answers++
	p.times[i]++
	if step.times != forever && p.times[i] >= max(step.times, 1) {
		p.at[role]++
	}
	return t, nil
}

func (p *progress) taken(step *Step, label, id string, names *namer, req *request) (*taken, error) {
	t := &taken{step: step, label: label, id: "m3_" + id}
	for _, u := range step.calls {
		tool := offered{u.Namespace, u.Raw}
		if u.Raw == "" {
			var err error
			if tool, err = names.find(u.Tool, req.tools); err != nil {
				return nil, err
			}
		}
		t.calls = append(t.calls, tool)
	}
	return t, nil
}

// fail notes a problem after which the script gives no further step.
func (p *progress) fail(problem Problem) error {
	p.problems = append(p.problems, problem)
	p.broken = problem.String()
	return fmt.Errorf("%s", p.broken)
}

// note keeps a problem that leaves the script where it is. A problem that is there already is not kept twice.
func (p *progress) note(problem Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, have := range p.problems {
		if have == problem {
			return
		}
	}
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, problem)
	}
}

// maxProblems bounds what is kept of an agent that asks nonsense without end.
const maxProblems = 100

// all are the problems, with the steps that are left over.
func (p *progress) all() []Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]Problem{}, p.problems...)
	for i, step := range p.script {
		problem := Problem{Kind: ProblemLeftOver, Step: i + 1, Name: step.String()}
		switch want := max(step.times, 1); {
		case p.times[i] >= want, p.isProblem(i):
			continue
		case p.times[i] == 0:
			problem.Message = "the agent did not ask for it"
		default:
			problem.Message = fmt.Sprintf("the agent asked for it %s, and the script says %d", count(p.times[i], "time"), want)
		}
		out = append(out, problem)
	}
	return out
}

// isProblem reports whether the step has a problem of its own.
func (p *progress) isProblem(i int) bool {
	for _, problem := range p.problems {
		if problem.Step == i+1 {
			return true
		}
	}
	return false
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
