package wire

import "syscall"

// mostRoom is the largest cap on frames for which room is set aside beforehand.
const mostRoom = 1 << 30

// roomFor returns an empty buffer into which n bytes fit, outside of Go's heap. Only the pages that are written to take memory: so a large frame grows
// without ever being copied, and leaves no garbage. It is nil when the system has no such room.
func roomFor(n int64) []byte {
	if n > mostRoom {
		return nil
	}
	b, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b[:0]
}

// giveBack gives up what roomFor returned, and everything that is in it.
func giveBack(b []byte) {
	_ = syscall.Munmap(b[:cap(b)]) // it was mapped so: it cannot fail
}
