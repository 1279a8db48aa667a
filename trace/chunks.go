package trace

// chunkLen elements make a chunk: growing a list of a million entries then copies none of them.
const chunkLen = 1 << 12

// chunks is a list that only grows. Pointers from at stay valid until the next push.
type chunks[T any] struct {
	parts [][]T
	n     int
}

// push appends v and returns its index.
func (c *chunks[T]) push(v T) int {
	last := len(c.parts) - 1
	switch {
	case last < 0:
		c.parts = append(c.parts, nil) // the first chunk grows with its use: most traces are small
		last = 0
	case len(c.parts[last]) == chunkLen:
		c.parts = append(c.parts, make([]T, 0, chunkLen))
		last++
	}
	c.parts[last] = append(c.parts[last], v)
	c.n++
	return c.n - 1
}

func (c *chunks[T]) at(i int) *T { return &c.parts[i/chunkLen][i%chunkLen] }

func (c *chunks[T]) len() int { return c.n }
