package wiretest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// seedBytes bounds a seed: longer ones only slow a fuzzer down.
const seedBytes = 64 << 10

// Seed hands what the wild cases send (see [Seeds]) to a fuzz target.
func Seed(f *testing.F, add func(sent []byte)) {
	f.Helper()
	seeds, err := Seeds()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range seeds {
		add(s)
	}
}

// Seeds returns what the wild cases' servers and their repaired twins send, one entry a step, as the bytes on a stdio connection (a message without its
// line break, HTTP answers with status line and headers). It is for the fuzz targets of the decoders, and reads testdata/wild of the module around the working directory.
func Seeds() ([][]byte, error) {
	dir, err := wildDir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var seeds []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c := ParseCase(b)
		for _, text := range []string{c.Server, c.Twin} {
			w, err := ParseWild(text)
			if err != nil {
				return nil, err
			}
			for _, r := range w.rules {
				seeds = append(seeds, r.sent()...)
			}
		}
	}
	slices.Sort(seeds)
	seeds = slices.Compact(seeds)
	out := make([][]byte, len(seeds))
	for i, s := range seeds {
		out[i] = []byte(s)
	}
	if len(out) == 0 {
		return nil, errors.New("wiretest: the wild cases in " + dir + " send nothing")
	}
	return out, nil
}

// wildDir looks for testdata/wild in the directories from the working one to the module's root.
func wildDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		wild := filepath.Join(dir, "testdata", "wild")
		if _, err := os.Stat(wild); err == nil {
			return wild, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", &fs.PathError{Op: "find", Path: filepath.Join("testdata", "wild"), Err: fs.ErrNotExist}
		}
		dir = up
	}
}

// sent is what the rule's steps send, in a plausible expansion.
func (r *rule) sent() []string {
	m := asked{ID: json.RawMessage("1"), Method: r.on}
	var out []string
	for _, st := range r.steps {
		rest := m.expand(st.rest, "127.0.0.1:8080")
		switch st.verb {
		case ">":
			out = append(out, rest)
		case "data":
			out = append(out, "data: "+rest+"\n\n")
		case "raw", "repeat":
			if st.verb == "repeat" {
				_, rest, _ = strings.Cut(rest, " ")
			}
			if s, err := strconv.Unquote(rest); err == nil {
				out = append(out, s)
			}
		case "reply":
			status, rest, _ := strings.Cut(rest, " ")
			typ, body, _ := strings.Cut(rest, " ")
			out = append(out, "HTTP/1.1 "+status+" Status\r\nContent-Type: "+typ+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" || len(s) > seedBytes })
}
