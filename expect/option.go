package expect

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/m3-go/m3/trace"
)

// common is what the options of all matchers about an execution add up to.
type common struct {
	turn   trace.TurnID
	server string
	args   arguments
	misuse string // the first
}

func (c *common) wrong(format string, args ...any) {
	if c.misuse == "" {
		c.misuse = fmt.Sprintf(format, args...)
	}
}

// Scope is what [InTurn] and [OnServer] return: an option of every matcher that looks for entries of an execution.
type Scope struct{ apply func(*common) }

func (o Scope) callOption(s *callSpec)               { o.to(&s.common) }
func (o Scope) callsOption(s *callsSpec)             { o.to(&s.common) }
func (o Scope) entryOption(s *entrySpec)             { o.to(&s.common) }
func (o Scope) elicitationOption(s *elicitationSpec) { o.to(&s.common) }
func (o Scope) findingOption(s *findingSpec)         { o.to(&s.common) }
func (o Scope) serverOption(s *common)               { o.to(s) }

// emptyOption is what is wrong with the zero value of an option.
const emptyOption = "an option is empty"

func (o Scope) to(c *common) {
	if o.apply == nil {
		c.wrong(emptyOption)
		return
	}
	o.apply(c)
}

// InTurn looks at one turn: a trace.TurnID, a turn, or its state.
func InTurn(turn trace.TurnSelector) Scope {
	return Scope{func(c *common) {
		if turn == nil || isNil(turn) {
			c.wrong("InTurn: the turn is nil")
			return
		}
		if c.turn = turn.SelectTurn(); c.turn == "" {
			c.wrong("InTurn: the turn has no id")
			return
		}
		c.args.add("turn", string(c.turn))
	}}
}

// OnServer looks at one server, by its name in the execution. It is needed where a name stands for something on several servers.
func OnServer(name string) Scope {
	return Scope{func(c *common) {
		if name == "" {
			c.wrong("OnServer: the name is empty")
			return
		}
		c.server = name
		c.args.add("server", name)
	}}
}

// selector is what is looked for, with the server when one was named.
func (c *common) selector(name string) string {
	switch {
	case c.server == "":
		return name
	case name == "":
		return c.server
	default:
		return c.server + "/" + name
	}
}

// narrow returns the part of the view that the options are about. A turn or a server that the view does not know is a mistake, most likely a
// misspelling: nothing would ever be found there.
func (c *common) narrow(view *trace.View) (*trace.View, outcome) {
	if c.server != "" {
		if known := serversOf(view); len(known) > 0 && !slices.Contains(known, c.server) {
			return nil, misused("OnServer(%q): there is no such server in the view; it has: %s", c.server, list(known))
		}
	}
	if c.turn == "" {
		return view, held
	}
	narrow := view.ForTurn(c.turn)
	if narrow.Timeline().Len() == 0 {
		return nil, cannotTell(fmt.Sprintf("InTurn(%q): there is nothing of that turn in the view", string(c.turn)))
	}
	return &narrow, held
}

// serversOf lists the servers that were connected to, as far as the view shows it.
func serversOf(view *trace.View) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, t := range view.Transports().All() {
		add(t.ServerBinding)
	}
	for _, i := range view.Initializations().All() {
		add(i.ServerBinding)
	}
	return names
}

// list writes names, at most 20.
func list(names []string) string {
	const most = 20
	var parts []string
	for i, name := range names {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		parts = append(parts, quoted(cut(name, 200, "bytes more")))
	}
	return strings.Join(parts, ", ")
}

// Count is what [Times], [MinTimes] and [MaxTimes] return: how many there must be. Without one of them it is at least one.
type Count struct{ apply func(*count) }

func (o Count) callOption(s *callSpec)               { o.to(&s.count) }
func (o Count) entryOption(s *entrySpec)             { o.to(&s.count) }
func (o Count) elicitationOption(s *elicitationSpec) { o.to(&s.count) }
func (o Count) findingOption(s *findingSpec)         { o.to(&s.count) }

func (o Count) to(c *count) {
	if o.apply == nil {
		c.misuse = emptyOption
		return
	}
	o.apply(c)
}

// Times wants exactly n for which everything else holds; 0 wants none. It excludes MinTimes and MaxTimes.
func Times(n int) Count {
	return Count{func(c *count) { c.set("Times", &c.times, n) }}
}

// MinTimes wants n or more; 0 accepts none.
func MinTimes(n int) Count {
	return Count{func(c *count) { c.set("MinTimes", &c.least, n) }}
}

// MaxTimes wants n or less, and, unless MinTimes says otherwise, at least one.
func MaxTimes(n int) Count {
	return Count{func(c *count) { c.set("MaxTimes", &c.most, n) }}
}

// count is how many are wanted.
type count struct {
	times, least, most *int
	misuse             string
	args               arguments
}

func (c *count) set(option string, to **int, n int) {
	switch {
	case n < 0:
		c.misuse = fmt.Sprintf("%s(%d): a number of times is not negative", option, n)
	case *to != nil && **to != n:
		c.misuse = fmt.Sprintf("%s is given twice: %d and %d", option, **to, n)
	default:
		*to = &n
		c.args.add(map[string]string{"Times": "count", "MinTimes": "min_count", "MaxTimes": "max_count"}[option], n)
	}
}

// check says what is wrong with the numbers together.
func (c *count) check() string {
	switch {
	case c.misuse != "":
		return c.misuse
	case c.times != nil && (c.least != nil || c.most != nil):
		return "Times excludes MinTimes and MaxTimes"
	case c.least != nil && c.most != nil && *c.least > *c.most:
		return fmt.Sprintf("MinTimes(%d) is more than MaxTimes(%d)", *c.least, *c.most)
	case c.least == nil && c.most != nil && *c.most == 0:
		return "MaxTimes(0) wants none and, without MinTimes, at least one: use Times(0)"
	}
	return ""
}

func (c *count) bounds() (lowest, highest int) {
	lowest, highest = 1, math.MaxInt
	if c.times != nil {
		return *c.times, *c.times
	}
	if c.least != nil {
		lowest = *c.least
	}
	if c.most != nil {
		highest = *c.most
	}
	return lowest, highest
}

func (c *count) String() string {
	lowest, highest := c.bounds()
	switch {
	case lowest == highest:
		return fmt.Sprintf("exactly %d", lowest)
	case highest == math.MaxInt && lowest == 1:
		return "at least one"
	case highest == math.MaxInt:
		return fmt.Sprintf("at least %d", lowest)
	case lowest == 0:
		return fmt.Sprintf("at most %d", highest)
	default:
		return fmt.Sprintf("%d to %d", lowest, highest)
	}
}

// weigh sets the number that was found against the one that is wanted. Some could not be judged, and might count or not; when lost
// says so, more may be missing.
func (c *count) weigh(s *subject, found, uncertain int, lost string, explain func() string) outcome {
	lowest, highest := c.bounds()
	least, most := found, found+uncertain
	if lost != "" {
		most = math.MaxInt
	}
	switch {
	case least >= lowest && most <= highest:
		if !s.negated {
			return held
		}
		return outcome{met, explain()}
	case least > highest || most < lowest:
		return outcome{unmet, explain()}
	case lost != "":
		return cannotTell(explain() + "\n" + lost)
	default:
		return cannotTell(explain())
	}
}

// lost says why entries may be missing in the view; empty when none can be. A snapshot was asked for by name: it is all there is so far.
func lost(view *trace.View) string {
	for _, l := range view.Limitations() {
		switch l.Code {
		case "cleanup_failed", "open": // the frames are all there
		default:
			return fmt.Sprintf("the trace is partial (%s: %s): something may be missing", l.Code, l.Message)
		}
	}
	return ""
}

// Bound is a limit of a duration: see [Below], [AtLeast], [Between] and [About].
type Bound struct {
	low, high time.Duration
	open      bool // high itself is too long
	text      string
	misuse    string
}

// Below is any duration shorter than d.
func Below(d time.Duration) Bound {
	b := Bound{high: d, open: true, text: "below " + d.String()}
	if d <= 0 {
		b.misuse = fmt.Sprintf("Below(%s): the bound must be positive", d)
	}
	return b
}

// AtLeast is d or longer.
func AtLeast(d time.Duration) Bound {
	b := Bound{low: d, high: math.MaxInt64, text: "at least " + d.String()}
	if d < 0 {
		b.misuse = fmt.Sprintf("AtLeast(%s): a duration is not negative", d)
	}
	return b
}

// Between is low, high, or between them.
func Between(low, high time.Duration) Bound {
	b := Bound{low: low, high: high, text: fmt.Sprintf("between %s and %s", low, high)}
	if low < 0 || high < low {
		b.misuse = fmt.Sprintf("Between(%s, %s): the lower bound is not negative, and not above the upper one", low, high)
	}
	return b
}

// About is d, or at most tolerance away from it.
func About(d, tolerance time.Duration) Bound {
	b := Bound{low: d - tolerance, high: d + tolerance, text: fmt.Sprintf("%s, at most %s more or less", d, tolerance)}
	if d < 0 || tolerance < 0 || b.high < d {
		b.misuse = fmt.Sprintf("About(%s, %s): neither is negative, nor too long", d, tolerance)
	}
	return b
}

// problem is what is wrong with the bound; the zero Bound is none at all.
func (b Bound) problem(option string) string {
	switch {
	case b.misuse != "":
		return option + ": " + b.misuse
	case b.text == "":
		return option + ": the bound is empty: use Below, AtLeast, Between or About"
	}
	return ""
}

func (b Bound) admits(d time.Duration) bool {
	return d >= b.low && (d < b.high || d == b.high && !b.open)
}

func (b Bound) String() string { return b.text }
