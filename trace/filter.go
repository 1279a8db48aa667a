package trace

import (
	"sort"
	"time"
)

// filter is what the filters of a view let through, worked out once: the records in order, and those of each kind.
type filter struct {
	records []int32
	byKind  [codeCount][]int32
}

// selection is a view's records: all of the index, or those of its filter.
type selection struct {
	ix *viewIndex
	f  *filter
}

func (v View) selected() selection { return selection{v.index(), v.filter} }

func (s selection) len() int {
	if s.f != nil {
		return len(s.f.records)
	}
	return s.ix.records.len()
}

func (s selection) record(i int) int32 {
	if s.f != nil {
		return s.f.records[i]
	}
	return int32(i)
}

func (s selection) kindLen(k kindCode) int {
	if s.f != nil {
		return len(s.f.byKind[k])
	}
	return s.ix.byKind[k].len()
}

func (s selection) kindRecord(k kindCode, i int) int32 {
	if s.f != nil {
		return s.f.byKind[k][i]
	}
	return *s.ix.byKind[k].at(i)
}

func (s selection) has(n int32) bool {
	if s.f == nil {
		return true
	}
	i := sort.Search(len(s.f.records), func(i int) bool { return s.f.records[i] >= n })
	return i < len(s.f.records) && s.f.records[i] == n
}

// where returns the view of the records that keep lets through.
func (v View) where(keep func(r *record) bool) View {
	s, f := v.selected(), &filter{}
	for i := range s.len() {
		n := s.record(i)
		if r := s.ix.records.at(int(n)); keep(r) {
			f.records = append(f.records, n)
			f.byKind[r.kind] = append(f.byKind[r.kind], n)
		}
	}
	return View{ix: s.ix, filter: f}
}

// whereScope is where for a property of the scope, of which there are few.
func (v View) whereScope(keep func(s *scope) bool) View {
	ix := v.index()
	in := make([]bool, len(ix.scopes))
	for i := range ix.scopes {
		in[i] = keep(&ix.scopes[i])
	}
	return v.where(func(r *record) bool { return in[r.scope] })
}

// ForTurn returns the view of one turn: what happened in it, and every answer to a request made in it, whenever that came.
// The summary, runtime and outcome stay those of the execution, as with every filter. A nil selector selects nothing.
func (v View) ForTurn(turn TurnSelector) View {
	if turn == nil {
		return v.where(func(*record) bool { return false })
	}
	id := turn.SelectTurn()
	return v.whereScope(func(s *scope) bool { return s.turn == id && id != "" })
}

// ForSession returns the view of one session.
func (v View) ForSession(id SessionID) View {
	return v.whereScope(func(s *scope) bool { return s.session == id && id != "" })
}

// ForServer returns the view of one server, by its name in the execution.
func (v View) ForServer(name string) View {
	return v.whereScope(func(s *scope) bool { return s.server == name && name != "" })
}

// Between returns the view of what overlaps the time from start to end, both included, counted since the execution was created.
// It is an error (code invalid_argument) when start is negative or after end.
func (v View) Between(start, end time.Duration) (View, error) {
	if start < 0 || end < start {
		return View{}, &codedError{"invalid_argument", "trace: Between(" + start.String() + ", " + end.String() + "): a range starts at 0 or later and does not end before it starts"}
	}
	ix := v.index()
	return v.where(func(r *record) bool {
		return ix.offsets[r.start] <= int64(end) && ix.offsets[r.end] >= int64(start)
	}), nil
}
