package endtoend

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/m3-go/m3/internal/endtoend/planted"
)

// watcher reads every file below a directory again and again while others write them, and looks for secrets.
type watcher struct {
	root    string
	secrets planted.Set
	needles [][]byte // of the core that all secrets have

	mu    sync.Mutex
	found map[string][]string // name of a secret, or of a part of one → where
	kinds map[string]bool     // of files that were read
	reads int
	seen  map[string]fs.FileInfo // large files as they were read last
	buf   bytes.Buffer
}

// alwaysRead is the size up to which a file is read each time: neither its time nor its size tells all changes.
const alwaysRead = 8 << 20

func newWatcher(root, core string, secrets planted.Set) *watcher {
	w := &watcher{root: root, secrets: secrets, found: map[string][]string{}, kinds: map[string]bool{}, seen: map[string]fs.FileInfo{}}
	w.needles = [][]byte{[]byte(core)}
	for shift := range 3 { // 9 bytes are 12 digits, of which the outer ones are shared with what stands around
		all := base64.StdEncoding.EncodeToString(append(make([]byte, shift), core...))
		w.needles = append(w.needles, []byte(all[(shift*8+5)/6:(shift+len(core))*8/6]))
	}
	return w
}

// watch reads until the returned function is called, which reads everything once more.
func (w *watcher) watch(t *testing.T) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
				w.round(t)
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
		clear(w.seen)
		w.round(t)
	}
}

// round reads everything that is there. What is gone before it can be read was somebody's temporary file.
func (w *watcher) round(t *testing.T) {
	_ = filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if info.Size() > alwaysRead {
			if last := w.seen[path]; last != nil && last.Size() == info.Size() && last.ModTime().Equal(info.ModTime()) {
				return nil
			}
			w.seen[path] = info
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		w.buf.Reset()
		if _, err := w.buf.ReadFrom(f); err != nil {
			t.Errorf("read %s: %v", path, err)
		}
		w.look(path, w.buf.Bytes())
		return nil
	})
}

// look looks for secrets in what was read or printed.
func (w *watcher) look(where string, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	kind := filepath.Ext(where)
	switch {
	case strings.Contains(where, "/blobs/"):
		kind = "blob"
	case strings.HasSuffix(where, ".frames.jsonl"):
		kind = "artifact"
	case filepath.Base(where) == "feedback.json":
		kind = "feedback"
	case strings.Contains(where, ".spool/"):
		kind = "spool"
	}
	w.kinds[kind] = w.kinds[kind] || len(b) > 0
	if !slices.ContainsFunc(w.needles, func(n []byte) bool { return bytes.Contains(b, n) }) {
		return
	}
	names := w.secrets.Find(b)
	if len(names) == 0 {
		names = []string{"a part of a secret"}
	}
	for _, n := range names {
		if !slices.Contains(w.found[n], where) {
			w.found[n] = append(w.found[n], where)
		}
	}
}
