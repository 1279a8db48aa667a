package proc

import (
	"os"
	"strconv"
	"syscall"
)

// exitOf translates what wait(2) said. It is not known how the process ended when somebody else reaped it (a test process
// that ignores SIGCHLD).
func exitOf(state *os.ProcessState, err error) Exit {
	if err != nil || state == nil {
		return Exit{Code: -1}
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return Exit{Code: -1, Signal: signalName(status.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}

// String returns "exit code 3" or "SIGKILL", for messages.
func (e Exit) String() string {
	switch {
	case e.Signal != "":
		return e.Signal
	case e.Code < 0:
		return "exit code not known"
	default:
		return "exit code " + strconv.Itoa(e.Code)
	}
}

// signalName returns the name as kill -l has it; package syscall has only descriptions ("killed").
func signalName(s syscall.Signal) string {
	if name, ok := signalNames[s]; ok {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL",
	syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE",
	syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV", syscall.SIGUSR2: "SIGUSR2",
	syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM", syscall.SIGXCPU: "SIGXCPU",
	syscall.SIGXFSZ: "SIGXFSZ", syscall.SIGSYS: "SIGSYS",
}
