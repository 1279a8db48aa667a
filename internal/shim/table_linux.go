package shim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// cheapFind says that looking up one process does not cost as much as reading the whole table.
const cheapFind = true

// envSeparator stands between the entries of what environ returns.
const envSeparator = 0

// table reads /proc, but not the processes with pids below from, unless pids were used again since from was given, and not those of groups that others names
// (nil: none). A process that ends while it is read is left out.
func table(from int, others func(group int) bool) ([]Proc, error) {
	if from > 0 && lastPID() < from {
		from = 0
	}
	var procs []Proc
	buf := make([]byte, 1024)
	path := append(make([]byte, 0, 32), "/proc/"...)
	start := from
	if !ordered() {
		start = 0
	}
	err := eachPID(start, func(pid int) {
		if pid < from {
			return
		}
		if others != nil { // far cheaper than to read its status, for which the system visits all its threads
			if group, err := syscall.Getpgid(pid); err == nil && others(group) {
				return
			}
		}
		b, err := slurp(string(append(strconv.AppendInt(path, int64(pid), 10), "/stat"...)), buf)
		if err != nil {
			return
		}
		if p, alive := parseStat(b); alive {
			procs = append(procs, p)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(procs) == 0 && from == 0 {
		return nil, errors.New("/proc shows no process; is it mounted?")
	}
	return procs, nil
}

// ordered reports whether a place in /proc can be taken for a pid, as Linux has it since it has /proc: entries are in the order of their pids, each at its pid plus
// 258, so that whoever begins at a pid sees that one and all above it. Most of what lives is then not even listed. It is seen to be so before it is used.
var ordered = sync.OnceValue(func() bool {
	self, found := os.Getpid(), false
	err := eachPID(self, func(pid int) { found = found || pid == self })
	return err == nil && found
})

// eachPID calls f with every name in /proc that is a number, from a place on (0: all). Like slurp it goes past package os.
func eachPID(place int, f func(pid int)) error {
	fd, err := syscall.Open("/proc", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if place > 0 {
		if _, err := syscall.Seek(fd, int64(place), 0); err != nil {
			return err
		}
	}
	for buf := make([]byte, 8<<10); ; {
		n, err := syscall.ReadDirent(fd, buf)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return err
		case n <= 0:
			return nil
		}
		for rest := buf[:n]; len(rest) > nameAt; {
			size := int(binary.NativeEndian.Uint16(rest[sizeAt:]))
			if size <= nameAt || size > len(rest) {
				return errors.New("/proc cannot be read: its entries are not as expected")
			}
			name, _, _ := bytes.Cut(rest[nameAt:size], []byte{0})
			if pid, ok := decimal(name); ok && pid > 0 && pid < 1<<31 {
				f(int(pid))
			}
			rest = rest[size:]
		}
	}
}

// Where linux_dirent64 has its size and its name.
const (
	sizeAt = 16
	nameAt = 19
)

// lastPID returns the pid that the system gave last, 0 when it does not say.
func lastPID() int {
	b, err := slurp("/proc/loadavg", make([]byte, 128))
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) == 0 {
		return 0
	}
	pid, _ := strconv.Atoi(string(f[len(f)-1]))
	return pid
}

func find(pid int) (Proc, bool) {
	b, err := slurp("/proc/"+strconv.Itoa(pid)+"/stat", make([]byte, 1024))
	if err != nil {
		return Proc{}, false
	}
	return parseStat(b)
}

// environ returns the environment that the process was started with, in buf or a larger one; nil when it may not be read.
func environ(p Proc, buf []byte) []byte {
	b, err := slurp("/proc/"+strconv.Itoa(p.PID)+"/environ", buf)
	if err != nil {
		return nil
	}
	return b
}

// slurp reads a small file into buf, or into a larger one when it must. It goes past package os because an end of a
// process reads hundreds of them.
func slurp(path string, buf []byte) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	n := 0
	for {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		k, err := syscall.Read(fd, buf[n:])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return nil, err
		case k == 0:
			return buf[:n], nil
		default:
			n += k
		}
	}
}
