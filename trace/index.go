package trace

import (
	"sort"
	"strconv"
)

// record is one entry of the timeline, before it is decoded: where its events are and how it ended. A long trace is
// hundreds of thousands of them, so it holds no pointer and 24 bytes.
type record struct {
	start, end int32  // the first and the last event
	resp       int32  // the event that answers the first, or -1
	aux        int32  // raw message, diagnostic, finding: the record it belongs to; tool call, protocol: its group; elicitation: its round; -1 none
	scope      uint32 // index in viewIndex.scopes
	kind       kindCode
	verdict    verdict
	flags      flags
}

type flags uint16

const (
	flagOwn       flags = 1 << iota // m3's own
	flagAmbiguous                   // two open requests had its id: its answer cannot be told
	flagReported                    // a tool call as the agent told it
	flagAnswered                    // an answer came after the call had ended otherwise
	flagHTTPOnly                    // resp is an HTTP answer that carried no message
	flagFromAgent                   // a part of a batch that an agent sent
	flagDenied                      // a tool call that m3's restriction refused
	flagJoined                      // a tool call that both tapes have: see viewIndex.joined; of the report, that it is no entry of its own
	flagTwins                       // a tool call of one tape that equals several of the other
	flagUnsure                      // a tool call that may be on the other tape, but what would tell is not in the evidence
)

// scope is where an event belongs.
type scope struct {
	session SessionID
	turn    TurnID
	server  string
	conn    ConnectionID
	channel uint32 // numbers the pairs of server and connection
}

// group is a logical call that paused for input: one attempt for each request on the wire.
type group struct{ attempts []attempt }

type attempt struct {
	req, resp int32 // resp -1: not answered
	paused    bool  // the answer was input_required
}

// round places an elicitation: the keyed request with that ordinal in the answer to an attempt of a call. Before 2026-07-28 it is a request of the
// server's own (ordinal -1), and then the call that it belongs to may not be known (-1); attempt counts such requests of the call.
type round struct{ call, attempt, ordinal int32 }

// viewIndex is the projection that all views of a trace share. It never changes once made.
type viewIndex struct {
	t           *Trace
	n           int // events
	finished    bool
	outcome     Outcome
	limitations []Limitation
	kind        string // direct, or the harness

	records chunks[record]
	byKind  [codeCount]chunks[int32]
	offsets []int64 // of every event, nanoseconds
	scopes  []scope
	groups  []group
	rounds  []round
	turns   int // distinct
	counts  counts

	// Of agents only.
	wired   bool               // something passed between the agent and its servers
	joined  map[int32]int32    // the report of a tool call on the wire
	names   map[int32]toolName // of reports whose agent uses a name of its own
	usage   int32              // the usage report that counts for the whole, plus one; 0 none
	cost    int32              // the one whose cost does
	visible *filter            // what the timeline has, when some reports are no entries of their own
}

// toolName is a tool of a server.
type toolName struct{ server, tool string }

// counts are the numbers of a Summary that need the whole timeline.
type counts struct {
	tools, succeeded, failed, protocolErrors int
	reportedOnly, denied                     int
	cleanup                                  string
}

// push appends a record and returns its number.
func (ix *viewIndex) push(r record) int32 {
	n := int32(ix.records.push(r))
	ix.byKind[r.kind].push(n)
	return n
}

// entryID is "<kind>:<first sequence>"; of several elicitations in one answer the second is "….1", and so on.
func (ix *viewIndex) entryID(n int32) string {
	r := ix.records.at(int(n))
	id := make([]byte, 0, 32)
	id = append(id, entryKinds[r.kind]...)
	id = strconv.AppendInt(append(id, ':'), int64(r.start), 10)
	if r.kind == codeElicitation {
		if first := ix.firstAt(r.start, r.kind); first != n {
			id = strconv.AppendInt(append(id, '.'), int64(n-first), 10)
		}
	}
	return string(id)
}

// firstAt finds the first record of a kind that starts with an event, or -1.
func (ix *viewIndex) firstAt(seq int32, k kindCode) int32 {
	for i := sort.Search(ix.records.len(), func(i int) bool { return ix.records.at(i).start >= seq }); i < ix.records.len(); i++ {
		r := ix.records.at(i)
		if r.start != seq {
			break
		}
		if r.kind == k {
			return int32(i)
		}
	}
	return -1
}

// find is the way back from an entry id.
func (ix *viewIndex) find(id string) (int32, bool) {
	for n := len(id) - 1; n > 0; n-- {
		if id[n] != ':' {
			continue
		}
		for k, word := range entryKinds {
			if string(word) == id[:n] {
				return ix.findNumbered(kindCode(k), id[n+1:], id)
			}
		}
		break
	}
	return 0, false
}

func (ix *viewIndex) findNumbered(k kindCode, number, id string) (int32, bool) {
	ordinal := 0
	for i := range len(number) {
		if number[i] != '.' {
			continue
		}
		var err error
		if ordinal, err = strconv.Atoi(number[i+1:]); err != nil {
			return 0, false
		}
		number = number[:i]
		break
	}
	seq, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return 0, false
	}
	n := ix.firstAt(int32(seq), k)
	if n < 0 || ordinal < 0 || int(n)+ordinal >= ix.records.len() {
		return 0, false
	}
	n += int32(ordinal)
	return n, ix.entryID(n) == id
}
