//go:build !unix

package wire

// socketAlive is not known here: a connection is taken to live until a request on it fails.
var socketAlive func(fd uintptr) bool
