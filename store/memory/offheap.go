package memory

import (
	"runtime"
	"syscall"
)

// allocate returns an empty buffer of n bytes. Big ones lie outside Go's heap: the collector lets a heap grow to twice its live size before
// it collects, so that an arena inside would cost its size twice.
func allocate(n int) []byte {
	if n < lastChunk {
		return make([]byte, 0, n)
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil { // out of maps or memory: the heap may still have some
		return make([]byte, 0, n)
	}
	return b[:0]
}

// own makes the chunk give its memory back when nobody can reach the chunk any more. Whoever reads the data keeps the chunk alive.
func (c *chunk) own() {
	if cap(c.data) < lastChunk {
		return
	}
	runtime.AddCleanup(c, func(b []byte) {
		_ = syscall.Munmap(b) // fails for what came from the heap after all, which needs no giving back
	}, c.data[:cap(c.data)])
}
