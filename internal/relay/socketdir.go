package relay

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// socketDir is a directory, mode 0700, for the sockets of this process's listeners below one directory: it is made for the first and removed with the last. A
// directory for each would cost every execution its making and its removal.
type socketDir struct {
	path  string
	users int
	made  int // sockets so far, for their names
}

// socketDirs are those that are there, by what they are below.
var (
	socketMu   sync.Mutex
	socketDirs = map[string]*socketDir{}
)

// openSocketDir returns a path for a new socket in the directory below base, and what gives the directory up. One that somebody has removed is made again.
func openSocketDir(base string) (path string, release func(), err error) {
	socketMu.Lock()
	defer socketMu.Unlock()
	d := socketDirs[base]
	if d != nil {
		if info, err := os.Lstat(d.path); err != nil || !info.IsDir() {
			d = nil
		}
	}
	if d == nil {
		own, err := os.MkdirTemp(base, "m3-")
		if err != nil {
			return "", nil, err
		}
		d = &socketDir{path: own}
		socketDirs[base] = d
	}
	d.users++
	d.made++
	path = filepath.Join(d.path, "s"+strconv.Itoa(d.made))
	return path, func() { d.release(base, path) }, nil
}

func (d *socketDir) release(base, path string) {
	socketMu.Lock()
	defer socketMu.Unlock()
	_ = os.Remove(path) // closing the listener has done it already, as a rule
	if d.users--; d.users > 0 {
		return
	}
	os.RemoveAll(d.path)
	if socketDirs[base] == d {
		delete(socketDirs, base)
	}
}
