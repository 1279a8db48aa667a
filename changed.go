package m3

// Changed returns a channel that is closed when more of the execution has been recorded than before the call. Take it before [Client.Snapshot], and
// nothing is missed between the two; after Close it is closed. expect.Eventually waits with it.
func (c *Client) Changed() <-chan struct{} { return c.tape.Changed() }
