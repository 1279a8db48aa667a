//go:build !race

package m3_test

// slowness is by how much large payloads may be slower than they are.
const slowness = 1
