package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// StartError is a process that could not be started.
type StartError struct {
	Path string // the command as it was given
	Err  error  // what is wrong and how to put it right; errors.Is finds exec.ErrNotFound, fs.ErrPermission and the like in it
}

func (e *StartError) Error() string { return fmt.Sprintf("start %q: %v", e.Path, e.Err) }

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// reason is an error with a text of its own: the cause is for errors.Is, the text says it better.
type reason struct {
	text  string
	cause error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.cause }

func because(cause error, format string, args ...any) error {
	return &reason{text: fmt.Sprintf(format, args...), cause: cause}
}

// resolve checks what can be checked before and returns the path to execute.
func (s *Spec) resolve() (string, error) {
	if s.Path == "" {
		return "", because(fs.ErrInvalid, "the command is empty; name the program to run")
	}
	if err := s.checkNUL(); err != nil {
		return "", err
	}
	if err := checkDir(s.Dir); err != nil {
		return "", err
	}
	if strings.ContainsRune(s.Path, '/') {
		return s.Path, nil
	}
	return s.search()
}

func (s *Spec) checkNUL() error {
	nul := func(v string) bool { return strings.IndexByte(v, 0) >= 0 }
	if nul(s.Path) || nul(s.Dir) {
		return because(fs.ErrInvalid, "the command or its working directory contains a NUL byte; no path can")
	}
	for i, a := range s.Args {
		if nul(a) {
			return because(fs.ErrInvalid, "argument %d contains a NUL byte; pass binary data another way", i+1)
		}
	}
	for _, e := range s.Env {
		if nul(e) {
			name, _, _ := strings.Cut(e, "=")
			return because(fs.ErrInvalid, "the environment variable %q contains a NUL byte; pass binary data another way", name)
		}
	}
	return nil
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return because(err, "its working directory %q does not exist; create it or correct Dir", dir)
	case err != nil:
		return because(err, "its working directory %q cannot be used: %v", dir, cause(err))
	case !info.IsDir():
		return because(syscall.ENOTDIR, "its working directory %q is not a directory; correct Dir", dir)
	}
	return nil
}

// search looks the command up in PATH. Like package os/exec it never takes a program from a relative directory: which one
// that would be depends on who looks.
func (s *Spec) search() (string, error) {
	path, whose := s.pathVariable()
	var denied string
	var relative []string
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			relative = append(relative, fmt.Sprintf("%q", dir))
			continue
		}
		file := filepath.Join(dir, s.Path)
		info, err := os.Stat(file)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			denied = file
		default:
			return file, nil
		}
	}
	hint := "install it, or give its path"
	if denied != "" {
		hint = fmt.Sprintf("%s is there but not executable: chmod +x it", denied)
	} else if relative != nil {
		hint += "; relative directories in PATH are not searched: " + strings.Join(relative, ", ")
	}
	return "", because(exec.ErrNotFound, "command not found in %s, PATH=%s; %s", whose, clip(path), hint)
}

// pathVariable returns PATH and whose it is.
func (s *Spec) pathVariable() (path, whose string) {
	for i := len(s.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(s.Env[i], "PATH="); ok {
			return v, "the PATH of its own environment"
		}
	}
	return os.Getenv("PATH"), "the PATH of the test process (its own environment has none)"
}

// clip keeps an error message readable.
func clip(s string) string {
	if s == "" {
		return `""`
	}
	if len(s) > 1000 {
		return s[:1000] + "…"
	}
	return s
}

// cause strips the operation and the path that package os adds; our text has them.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// explain says why path could not be executed.
func (s *Spec) explain(path string, err error) error {
	file := path
	if !filepath.IsAbs(path) {
		file = filepath.Join(s.Dir, path)
	}
	info, statErr := os.Stat(file)
	switch {
	case errors.Is(err, syscall.ENOENT) && statErr != nil:
		return because(err, "%s does not exist%s; install it or correct the command", file, relativeTo(path))
	case errors.Is(err, syscall.ENOENT):
		return because(err, "%s exists, but %s", file, interpreter(file))
	case errors.Is(err, syscall.EACCES):
		return because(err, "%s", denied(file, info))
	case errors.Is(err, syscall.ENOEXEC):
		return because(err, "%s is not a program for this system: it has no #! line, or was built for another one", file)
	case errors.Is(err, syscall.E2BIG):
		return because(err, "its arguments and environment are too long for this system; pass large data in a file")
	case errors.Is(err, syscall.ETXTBSY):
		return because(err, "%s is still open for writing; close it before it is started", file)
	}
	return explainLimit(err)
}

func relativeTo(path string) string {
	if filepath.IsAbs(path) {
		return ""
	}
	return " (the command is a path relative to the working directory)"
}

// denied says why execution is refused.
func denied(file string, info fs.FileInfo) string {
	switch {
	case info == nil:
		return file + " cannot be reached: permission denied on a directory on the way"
	case info.IsDir():
		return file + " is a directory; name the program in it"
	case info.Mode()&0o111 == 0:
		return file + " is not executable: chmod +x it"
	}
	return file + " must not be executed: its file system or its interpreter does not permit it"
}

// interpreter says which file is missing when a program is there and still "does not exist".
func interpreter(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "the program that runs it does not"
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 512).ReadSlice('\n')
	if by, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		return fmt.Sprintf("the interpreter of its first line does not: %q; install that", bytes.TrimSpace(by))
	}
	return "the loader that it was linked for does not; was it built for another system?"
}

// explainLimit adds the way out where a limit of the system was met.
func explainLimit(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return because(err, "too many open files; raise the limit (ulimit -n) or run fewer tests at a time")
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return because(err, "no more processes (%v); raise the limit (ulimit -u) or run fewer tests at a time", cause(err))
	}
	return err
}
