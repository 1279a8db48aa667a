package m3

import "time"

// SetClock gives the kit another clock, for what it records from then on.
func (k *Kit) SetClock(now func() time.Time) { k.now = now }

// SetPatience gives agents another bound for connecting to their servers.
func (k *Kit) SetPatience(d time.Duration) { k.patience = d }
