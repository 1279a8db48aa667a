package proc

import (
	"context"

	"github.com/m3-go/m3/internal/shim"
)

// Guard is the reaper's watch over process groups that were not started by [Start], such as that of go test. When this process is gone,
// however it went, the reaper interrupts them (SIGINT to the whole group), and kills what is left of them 7 s later.
type Guard struct{ r *reaper }

// NewGuard brings the reaper up, so that there is no time between a start and its watch. Ctx bounds that.
func NewGuard(ctx context.Context) (*Guard, error) {
	g := &Guard{r: &keeper}
	if _, err := g.r.open(); err != nil {
		return nil, err
	}
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	if err := g.r.await(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// Watch hands over a process group, whose leader must be a child that was not waited for.
func (g *Guard) Watch(ctx context.Context, pgid int) error {
	leader, _ := shim.Find(pgid) // one that has ended already has no start, and its group may live on
	return g.r.tell(ctx, shim.Note{Verb: shim.NoteGuard, Group: pgid, Start: leader.Start})
}

// Forget takes a group back, before its number can belong to somebody else.
func (g *Guard) Forget(pgid int) { g.r.forget(pgid) }
