package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/m3-go/m3/internal/catalog"
	"github.com/m3-go/m3/store"
)

// The kinds of an [InterfaceChange].
const (
	ToolsChanged        = "tools"                // comparable: what changed is listed
	CatalogDistribution = "catalog_distribution" // a run saw several catalogues, so there is no before and after
	CatalogCompleteness = "catalog_completeness" // a reading of the tools did not come to its end
	CatalogCoverage     = "catalog_coverage"     // one run saw no catalogue
)

// InterfaceChange is how the tools of a server differ, or why that cannot be said.
type InterfaceChange struct {
	Kind       string `json:"kind"`
	Server     string `json:"server"` // alias
	Comparable bool   `json:"comparable"`
	// Where are the cases and configurations in which that was seen.
	Where []place `json:"where"`
	// Changes are classed breaking, risky, additive and wording, the worst first.
	Changes []catalog.Change `json:"changes,omitempty"`
	// Catalogs counts the different catalogues that each run saw.
	Catalogs Both[int] `json:"catalog_count"`
	Reason   string    `json:"reason,omitempty"`
}

type catalogKey struct {
	place
	server string
}

// shapes is what a run saw of one server's tools in one place.
type shapes struct {
	seen       map[string]*catalog.Catalog // by what they hold
	incomplete string
}

func (c *comparer) interfaces() error {
	base, err := c.shapes(c.base)
	if err != nil {
		return err
	}
	now, err := c.shapes(c.now)
	if err != nil {
		return err
	}
	keys := map[catalogKey]bool{}
	for k := range base {
		keys[k] = true
	}
	for k := range now {
		keys[k] = true
	}
	basePlaces, nowPlaces := c.base.places(), c.now.places()
	at := map[string]int{}
	for _, k := range sortedKeys(keys, func(a, b catalogKey) int { return cmp.Or(cmp.Compare(a.server, b.server), a.place.compare(b.place)) }) {
		if !basePlaces[k.place] || !nowPlaces[k.place] {
			continue // coverage of executions tells of it
		}
		change := interfaceChange(k.server, base[k], now[k])
		if change == nil {
			continue
		}
		id := digest(change)
		i, ok := at[id]
		if !ok {
			i = len(c.out.InterfaceChanges)
			at[id] = i
			c.out.InterfaceChanges = append(c.out.InterfaceChanges, *change)
		}
		c.out.InterfaceChanges[i].Where = append(c.out.InterfaceChanges[i].Where, k.place)
	}
	return nil
}

// interfaceChange is nil when nothing differs.
func interfaceChange(server string, a, b *shapes) *InterfaceChange {
	change := &InterfaceChange{Server: server}
	for _, s := range []struct {
		*shapes
		n    *int
		name string
	}{{a, &change.Catalogs.Baseline, "the baseline"}, {b, &change.Catalogs.Current, "this run"}} {
		if s.shapes == nil {
			change.Kind, change.Reason = CatalogCoverage, s.name+" did not list the tools there"
			continue
		}
		*s.n = len(s.seen)
		if s.incomplete != "" {
			change.Kind, change.Reason = CatalogCompleteness, s.name+": "+s.incomplete
		}
	}
	switch {
	case change.Kind != "":
		return change
	case maps.EqualFunc(a.seen, b.seen, func(x, y *catalog.Catalog) bool { return true }): // the keys are what they hold
		return nil
	case len(a.seen) != 1 || len(b.seen) != 1:
		change.Kind, change.Reason = CatalogDistribution, "a run saw several catalogues of one server"
		return change
	}
	change.Kind, change.Comparable = ToolsChanged, true
	for _, before := range a.seen {
		for _, after := range b.seen {
			change.Changes = catalog.Compare(before, after)
		}
	}
	return change
}

func (c *comparer) shapes(s *side) (map[catalogKey]*shapes, error) {
	seen, err := observedTools(c.ctx, c.r, store.EventQuery{RunID: s.f.RunID})
	if err != nil {
		return nil, err
	}
	out := map[catalogKey]*shapes{}
	for _, o := range seen {
		x := s.executions[o.execution]
		if x == nil {
			continue // begun since
		}
		k := catalogKey{x.place, o.Server}
		if out[k] == nil {
			out[k] = &shapes{seen: map[string]*catalog.Catalog{}}
		}
		out[k].add(o)
	}
	return out, nil
}

func (s *shapes) add(o *observation) {
	if !o.Complete {
		s.incomplete = orEither(s.incomplete, fmt.Sprintf("a reading of the tools is incomplete: %s", o.Reason))
		return
	}
	raw := make([][]byte, len(o.Tools))
	for i, t := range o.Tools {
		raw[i] = t
	}
	cat, err := catalog.New("", raw)
	if err != nil {
		s.incomplete = orEither(s.incomplete, "a catalogue cannot be read: "+err.Error())
		return
	}
	var id bytes.Buffer
	_ = json.NewEncoder(&id).Encode(cat.Tools) // what was JSON before
	s.seen[digest(json.RawMessage(id.Bytes()))] = cat
}

// orEither keeps what does not depend on the order in which it came.
func orEither(a, b string) string {
	if a == "" {
		return b
	}
	return slices.Min([]string{a, b})
}
