//go:build race

package m3_test

// slowness is by how much the race detector slows down what looks at every byte of a large payload.
const slowness = 20
