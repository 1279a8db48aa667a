package shim

import "bytes"

// parseStat reads one /proc/PID/stat (proc(5)). It reports false for a zombie and for what it cannot read.
func parseStat(b []byte) (Proc, bool) {
	// The second field is the name in parentheses, and may itself hold spaces and parentheses.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return Proc{}, false
	}
	f := fields{b[end+1:]}
	state := f.skip(0)
	if len(state) != 1 {
		return Proc{}, false
	}
	switch state[0] {
	case 'Z', 'X', 'x':
		return Proc{}, false
	}
	pid, ok1 := decimal(bytes.TrimSpace(b[:open]))
	parent, ok2 := decimal(f.skip(0)) // field 4
	group, ok3 := decimal(f.skip(0))
	start, ok4 := decimal(f.skip(16)) // field 22
	const most = 1 << 31
	return Proc{PID: int(pid), Parent: int(parent), Group: int(group), Start: start}, ok1 && ok2 && ok3 && ok4 && pid > 0 && pid < most && parent < most && group < most
}

// fields gives the fields of a text one after the other, without making anything: an end of a process reads hundreds of these texts.
type fields struct{ rest []byte }

// skip leaves out n fields and returns the next one, empty when there is none.
func (f *fields) skip(n int) []byte {
	for ; ; n-- {
		f.rest = bytes.TrimLeft(f.rest, " \n")
		i := bytes.IndexAny(f.rest, " \n")
		if i < 0 {
			i = len(f.rest)
		}
		field := f.rest[:i]
		f.rest = f.rest[i:]
		if n == 0 || len(field) == 0 {
			return field
		}
	}
}

// decimal reads a number without a sign.
func decimal(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
