package gotest

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Output keeps the beginning and the end of a text that may be huge. The zero value is empty and keeps maxOutput bytes.
type Output struct {
	head    strings.Builder
	tail    []byte
	dropped int64
}

// maxOutput bounds what is kept of the output of one test or package; half of it is the beginning, half the end.
const maxOutput = 256 << 10

func (o *Output) add(s string) {
	if room := maxOutput/2 - o.head.Len(); o.tail == nil && room > 0 {
		if len(s) <= room {
			o.head.WriteString(s)
			return
		}
		o.head.WriteString(s[:room])
		s = s[room:]
	}
	o.tail = append(o.tail, s...)
	if over := len(o.tail) - maxOutput/2; over > maxOutput/2 { // cut seldom: each cut moves the rest
		o.dropped += int64(over)
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
}

func (o *Output) clear() { *o = Output{} }

// Dropped is the number of bytes in the middle that were not kept.
func (o *Output) Dropped() int64 { return o.dropped }

// String returns what was kept, with a line that says so where something is missing. Lines are left out whole, so that no
// half of a secret escapes the redaction that comes later.
func (o *Output) String() string {
	head, tail := o.head.String(), string(o.tail)
	if o.dropped == 0 {
		return head + tail
	}
	_, rest, _ := strings.Cut(tail, "\n")
	head = head[:strings.LastIndexByte(head, '\n')+1]
	return head + fmt.Sprintf("[about %d bytes not kept]\n", o.dropped) + rest
}

// Bound shortens s to about limit bytes, keeping its beginning and its end and saying how much is missing between them.
func Bound(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head, tail := limit/2, len(s)-limit/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", s[:head], tail-head, s[tail:])
}
