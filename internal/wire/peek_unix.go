//go:build unix

package wire

import "syscall"

// socketAlive reports whether a socket is open and has nothing to read. It does not wait.
var socketAlive = func(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EINTR
}
