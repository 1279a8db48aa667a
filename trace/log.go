package trace

// Log returns where the trace's events live, for those who keep or copy them.
func (t *Trace) Log() Log { return t.log }
