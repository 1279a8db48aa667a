package elicit

import (
	"fmt"
	"slices"
	"strings"
)

// program is a plan laid out for matching, as regular expressions are: the places in it are the remaining plans of which a candidate has one. A plan that was
// used twice is laid out twice.
type program struct {
	code  []instruction
	nodes []place
}

// instruction is one place. An item consumes a round and goes on with the place after it; a fork goes on with all its targets at
// once; the end is where nothing remains.
type instruction struct {
	op      opcode
	item    *Plan // of an item: a leaf or a round
	node    int32 // of an item: where in the plan it stands
	targets []int32
}

type opcode uint8

const (
	opItem opcode = iota
	opFork
	opEnd
)

// place is a node's way to the plan's root.
type place struct {
	parent int32 // -1 at the root
	plan   *Plan
	index  int // among the parent's children
}

func compile(plan *Plan, dropped rule) *program {
	c := &program{}
	c.lay(plan, -1, 0, dropped)
	c.emit(instruction{op: opEnd})
	return c
}

func (c *program) emit(i instruction) int32 {
	c.code = append(c.code, i)
	return int32(len(c.code) - 1)
}

func (c *program) here() int32 { return int32(len(c.code)) }

// lay lays out a plan. What follows it is where it goes on.
func (c *program) lay(plan *Plan, parent int32, index int, dropped rule) {
	node := int32(len(c.nodes))
	c.nodes = append(c.nodes, place{parent: parent, plan: plan, index: index})
	switch plan.node {
	case NodeLeaf, NodeRound:
		c.skippable(plan.maybe && dropped&ruleSkip == 0, func() { c.emit(instruction{op: opItem, item: plan, node: node}) })
	case NodeOptional:
		c.skippable(dropped&ruleSkip == 0, func() { c.lay(plan.children[0], node, 0, dropped) })
	case NodeSequence:
		for i := range plan.children {
			if dropped&ruleOrder != 0 {
				i = len(plan.children) - 1 - i
			}
			c.lay(plan.children[i], node, i, dropped)
		}
	case NodeOneOf:
		c.branches(plan, node, dropped)
	}
}

// skippable lays out what may be passed over.
func (c *program) skippable(may bool, body func()) {
	if !may {
		body()
		return
	}
	fork := c.emit(instruction{op: opFork})
	body()
	c.code[fork].targets = []int32{fork + 1, c.here()}
}

// branches lays out one branch after the other, with a jump after each to what follows them all.
func (c *program) branches(plan *Plan, node int32, dropped rule) {
	fork := c.emit(instruction{op: opFork})
	var starts, jumps []int32
	for i, child := range plan.children {
		starts = append(starts, c.here())
		c.lay(child, node, i, dropped)
		jumps = append(jumps, c.emit(instruction{op: opFork}))
	}
	if dropped&ruleEveryBranch != 0 {
		starts = starts[:1]
	}
	c.code[fork].targets = starts
	for _, j := range jumps {
		c.code[j].targets = []int32{c.here()}
	}
}

// path names the item from the plan's root: sequence[1].one_of[0] form "address".
func (c *program) path(item int32) string {
	var steps []string
	at := c.code[item].node
	for n := c.nodes[at]; n.parent >= 0; n = c.nodes[n.parent] {
		steps = append(steps, step(c.nodes[n.parent].plan.node, n.index))
	}
	slices.Reverse(steps)
	label := c.nodes[at].plan.label()
	if len(steps) == 0 {
		return label
	}
	return fmt.Sprintf("%s %s", strings.Join(steps, "."), label)
}

// skipped reports whether the item need not be asked for: it, or what it stands in, is optional.
func (c *program) skipped(item int32) bool {
	for at := c.code[item].node; at >= 0; at = c.nodes[at].parent {
		if p := c.nodes[at].plan; p.maybe || p.node == NodeOptional {
			return true
		}
	}
	return false
}
