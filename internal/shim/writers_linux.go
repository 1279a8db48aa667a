package shim

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func writers(pipe *os.File) []Proc {
	info, err := pipe.Stat()
	if err != nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	link := fmt.Sprintf("pipe:[%d]", stat.Ino) // proc(5), /proc/PID/fd
	all, _ := table(0, nil)
	var found []Proc
	for _, p := range all {
		if p.PID != os.Getpid() && writes("/proc/"+strconv.Itoa(p.PID), link) {
			found = append(found, p)
		}
	}
	return found
}

// writes reports whether a process has a descriptor of the pipe that is open for writing. One that is only on its way from
// fork to exec holds all of our descriptors, but of a pipe that we read from these are the reading end.
func writes(dir, link string) bool {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "/fd/" + fd.Name()); err != nil || to != link {
			continue
		}
		info, err := slurp(dir+"/fdinfo/"+fd.Name(), make([]byte, 256))
		if err == nil && writable(info) {
			return true
		}
	}
	return false
}

// writable reads the access mode from a /proc/PID/fdinfo/FD: octal flags as for open(2).
func writable(fdinfo []byte) bool {
	_, rest, ok := bytes.Cut(fdinfo, []byte("flags:"))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	flags, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 8, 64)
	return ok && err == nil && flags&syscall.O_ACCMODE != syscall.O_RDONLY
}
