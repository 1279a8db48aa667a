package proc

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/m3-go/m3/internal/shim"
)

// Start starts a process. ctx bounds the start, never the life of the process, which is the caller's until End.
// The error is always a *StartError that names the command and the fix.
func Start(ctx context.Context, s *Spec) (*Process, error) {
	p, err := start(ctx, s)
	if err != nil {
		return nil, &StartError{Path: s.Path, Err: err}
	}
	return p, nil
}

func start(ctx context.Context, s *Spec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, because(err, "it was not started: %v", err)
	}
	path, err := s.resolve()
	if err != nil {
		return nil, err
	}
	mark, err := keeper.open() // before the first process, so that there is none that it does not know
	if err != nil {
		return nil, err
	}
	p, err := s.launch(ctx, path, mark)
	if err != nil {
		return nil, err
	}
	go p.drain(s.Stderr)
	go p.wait()
	if err := keeper.watch(ctx, p.PID(), p.start); err != nil {
		p.End(&Ladder{EOF: time.Millisecond, Term: time.Millisecond})
		return nil, err
	}
	return p, nil
}

// launch makes the pipes and the process. Every descriptor is close-on-exec, and package os forks under syscall.ForkLock,
// so two starts at a time never leak a pipe into each other's process.
func (s *Spec) launch(ctx context.Context, path string, mark shim.Mark) (*Process, error) {
	var f [6]*os.File // stdin, stdout, stderr: reading end, writing end
	for i := 0; i < len(f); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(f[:]...)
			return nil, explainLimit(err)
		}
		f[i], f[i+1] = r, w
	}
	attr := &os.ProcAttr{
		Dir:   s.Dir,
		Env:   mark.Environ(s.environ()),
		Files: []*os.File{f[0], f[3], f[5]},
		Sys:   &syscall.SysProcAttr{Setpgid: !s.Session, Setsid: s.Session},
	}
	osp, err := fork(ctx, path, append([]string{s.Path}, s.Args...), attr)
	closeAll(f[0], f[3], f[5])
	if err != nil {
		closeAll(f[1], f[2], f[4])
		return nil, s.explain(path, err)
	}
	p := &Process{
		osp: osp, mark: mark, began: time.Now(), stdin: f[1], stdout: f[2], stderr: drainPipe{file: f[4], caught: make(chan struct{})},
		reaped: make(chan struct{}), drained: make(chan struct{}), exited: make(chan struct{}),
	}
	if self, ok := shim.Find(osp.Pid); ok {
		p.start = self.Start // it is not reaped yet, so this is it
	}
	return p, nil
}

// environ returns the environment before the mark is added: with the marks of this process itself, when a process that m3
// started is running it, and never with a role.
func (s *Spec) environ() []string {
	env := without(s.Env, shim.RoleEnv)
	if outer := os.Getenv(shim.MarkEnv); outer != "" {
		env = append(without(env, shim.MarkEnv), shim.MarkEnv+"="+outer)
	}
	return env
}

// fork starts the process. An executable that was written a moment ago can be busy as long as a child of another fork holds
// the descriptor it was written through, until that child's exec (go.dev/issue/22315); that passes.
func fork(ctx context.Context, path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		p, err := os.StartProcess(path, argv, attr)
		if !errors.Is(err, syscall.ETXTBSY) || pause > 500*time.Millisecond || ctx.Err() != nil {
			return p, err
		}
		time.Sleep(pause)
	}
}
