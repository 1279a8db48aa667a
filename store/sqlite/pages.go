package sqlite

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// What aggregation reads of evaluations and executions is kept a second time, many to a page: reading a million rows of a table one by one takes seconds,
// reading the same from some thousands of pages a tenth of one. Pages are written by the transaction that writes the rows, once each, just before it commits.

// slots is how many executions a page has: those whose rows have the same number but for the last six bits.
const (
	slotBits = 6
	slots    = 1 << slotBits
)

const (
	entrySize   = 24  // of an evaluation in its page
	pageEntries = 170 // a page of SQLite is 4096 bytes
	// maxFacts is from which size on the facts of an execution are kept in a row of their own, so that they are not written with each of
	// their neighbours.
	maxFacts = 1 << 10
)

// pages are those that the transaction has touched.
type pages struct {
	evaluations map[int64]*evaluationPage
	last        map[int64]int64 // the page of a set of labels that has room
	executions  map[int64]*executionPage
}

func (p *pages) clear() { *p = pages{} }

// evaluationPage holds the latest evaluations of some lineages with the same labels, entrySize bytes each.
type evaluationPage struct {
	data  []byte
	dirty bool
}

// entry is one evaluation in its page.
type entry struct {
	evaluation int64
	execution  int64 // 0: none, or not known
	status     aggregate.Status
	required   bool
	infra      bool
	scored     bool
	score      float64
}

const (
	bitRequired = 1 << 3
	bitInfra    = 1 << 4
	bitScored   = 1 << 5
)

func entryOf(id, execution int64, r *eval.Result, required bool) entry {
	e := entry{evaluation: id, execution: execution, status: aggregate.StatusOf(r.Status), required: required, infra: r.Infrastructure()}
	if r.Score != nil {
		e.scored, e.score = true, *r.Score
	}
	return e
}

func (e *entry) append(dst []byte) []byte {
	bits := uint64(e.status)
	for _, b := range []struct {
		set bool
		bit uint64
	}{{e.required, bitRequired}, {e.infra, bitInfra}, {e.scored, bitScored}} {
		if b.set {
			bits |= b.bit
		}
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.evaluation))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.execution)<<8|bits)
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(e.score))
}

func (e *entry) decode(b []byte) {
	second := binary.LittleEndian.Uint64(b[8:])
	e.evaluation = int64(binary.LittleEndian.Uint64(b))
	e.execution = int64(second >> 8)
	e.status = aggregate.Status(second & 7)
	e.required, e.infra, e.scored = second&bitRequired != 0, second&bitInfra != 0, second&bitScored != 0
	e.score = math.Float64frombits(binary.LittleEndian.Uint64(b[16:]))
}

// find returns where the entry of an evaluation begins, or -1.
func (p *evaluationPage) find(evaluation int64) int {
	for i := 0; i+entrySize <= len(p.data); i += entrySize {
		if int64(binary.LittleEndian.Uint64(p.data[i:])) == evaluation {
			return i
		}
	}
	return -1
}

func (s *Store) evaluationPage(id int64) (*evaluationPage, error) {
	if p, ok := s.pages.evaluations[id]; ok {
		return p, nil
	}
	p := &evaluationPage{}
	if err := s.row(`SELECT data FROM evaluation_page WHERE id = ?`, id).Scan(&p.data); err != nil {
		return nil, err
	}
	s.remember(id, p)
	return p, nil
}

func (s *Store) remember(id int64, p *evaluationPage) {
	if s.pages.evaluations == nil {
		s.pages.evaluations, s.pages.last = map[int64]*evaluationPage{}, map[int64]int64{}
	}
	s.pages.evaluations[id] = p
}

// addEntry adds an evaluation that is the latest of its lineage, and notes its page in its row.
func (s *Store) addEntry(labels int64, e *entry) (page int64, err error) {
	id, p, err := s.roomFor(labels)
	if err != nil {
		return 0, err
	}
	p.data, p.dirty = e.append(p.data), true
	return id, nil
}

// roomFor returns the newest page of a set of labels, or a new one when that is full.
func (s *Store) roomFor(labels int64) (int64, *evaluationPage, error) {
	id, ok := s.pages.last[labels]
	if !ok {
		err := s.row(`SELECT id FROM evaluation_page WHERE labels = ? ORDER BY id DESC LIMIT 1`, labels).Scan(&id)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, nil, err
		}
		ok = err == nil
	}
	if ok {
		p, err := s.evaluationPage(id)
		if err != nil || len(p.data) < pageEntries*entrySize {
			if err == nil {
				s.pages.last[labels] = id
			}
			return id, p, err
		}
	}
	if err := s.row(`INSERT INTO evaluation_page (labels, data) VALUES (?, x'') RETURNING id`, labels).Scan(&id); err != nil {
		return 0, nil, err
	}
	p := &evaluationPage{}
	s.remember(id, p)
	s.pages.last[labels] = id
	return id, p, nil
}

// removeEntry takes an evaluation that is not the latest any more out of its page.
func (s *Store) removeEntry(page, evaluation int64) error {
	p, err := s.evaluationPage(page)
	if err != nil {
		return err
	}
	if i := p.find(evaluation); i >= 0 {
		p.data, p.dirty = append(p.data[:i], p.data[i+entrySize:]...), true
	}
	return nil
}

func (s *Store) changeEntry(page, evaluation int64, change func(*entry)) error {
	p, err := s.evaluationPage(page)
	if err != nil {
		return err
	}
	if i := p.find(evaluation); i >= 0 {
		var e entry
		e.decode(p.data[i:])
		change(&e)
		copy(p.data[i:], e.append(nil))
		p.dirty = true
	}
	return nil
}

// executionPage holds the labels and facts of up to slots executions.
type executionPage struct {
	entries [slots]executionEntry
	dirty   bool
}

type executionEntry struct {
	labels int64 // 0: no such execution
	facts  []byte
}

// elsewhere stands for facts that have a row of their own.
var elsewhere = []byte{0}

func (p *executionPage) append(dst []byte) []byte {
	for i := range p.entries {
		e := &p.entries[i]
		if e.labels == 0 {
			continue
		}
		dst = append(dst, byte(i))
		dst = binary.AppendUvarint(dst, uint64(e.labels))
		dst = binary.AppendUvarint(dst, uint64(len(e.facts)))
		dst = append(dst, e.facts...)
	}
	return dst
}

var errPage = errors.New("sqlite: a page of executions is damaged")

// eachExecution calls f for each execution in a page.
func eachExecution(data []byte, f func(slot int, labels int64, facts []byte) error) error {
	for len(data) > 0 {
		slot := int(data[0])
		labels, n := binary.Uvarint(data[1:])
		if n <= 0 || slot >= slots {
			return errPage
		}
		data = data[1+n:]
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return errPage
		}
		data = data[n:]
		if err := f(slot, int64(labels), data[:size]); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

func (s *Store) executionPage(row int64) (*executionEntry, *executionPage, error) {
	id, slot := row>>slotBits, row&(slots-1)
	if p, ok := s.pages.executions[id]; ok {
		return &p.entries[slot], p, nil
	}
	p := &executionPage{}
	var data []byte
	err := s.row(`SELECT data FROM execution_page WHERE id = ?`, id).Scan(&data)
	if err == nil {
		err = eachExecution(data, func(slot int, labels int64, facts []byte) error {
			p.entries[slot] = executionEntry{labels, slices.Clone(facts)}
			return nil
		})
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, nil, err
	}
	if s.pages.executions == nil {
		s.pages.executions = map[int64]*executionPage{}
	}
	s.pages.executions[id] = p
	return &p.entries[slot], p, nil
}

// recordOf is what aggregation knows an execution's record by.
func recordOf(x *store.Execution) *aggregate.Execution {
	return &aggregate.Execution{ID: x.ID, Run: x.RunID, Suite: x.Suite, Case: x.Case, Kind: x.Kind, Created: nanos(x.Created), Servers: x.Servers, Spec: x.Spec}
}

// openFacts keeps what the record of an execution says, and what it requires.
func (s *Store) openFacts(row int64, r *store.Execution) error {
	labels, facts, required := recordOf(r).Open()
	id, err := s.labels(executionLabels, labels)
	if err != nil {
		return err
	}
	at, p, err := s.executionPage(row)
	if err != nil {
		return err
	}
	if at.labels == 0 || !finished(at.facts) {
		at.facts = facts.Append(nil)
	}
	at.labels, p.dirty = id, true
	for _, name := range required {
		if err := s.require(row, name); err != nil {
			return err
		}
	}
	return nil
}

// require notes that an execution declares an evaluator as required, and that what there is of it already is required.
func (s *Store) require(row int64, name string) error {
	word, err := s.word(name)
	if err != nil {
		return err
	}
	if err := s.exec(`INSERT OR IGNORE INTO execution_required (execution, evaluator, met)
		SELECT ?1, ?2, EXISTS (SELECT 1 FROM evaluation WHERE execution = ?1 AND evaluator = ?2)`, row, word); err != nil {
		return err
	}
	at := map[int64]int64{}
	err = s.each(`SELECT id, page FROM evaluation WHERE execution = ? AND evaluator = ? AND page IS NOT NULL AND latest`, func(rows *sql.Rows) error {
		var id, page int64
		err := rows.Scan(&id, &page)
		at[id] = page
		return err
	}, row, word)
	for id, page := range at {
		if err == nil {
			err = s.changeEntry(page, id, func(e *entry) { e.required = true })
		}
	}
	return err
}

func finished(facts []byte) bool {
	var f aggregate.Facts
	return slices.Equal(facts, elsewhere) || f.Decode(facts, &aggregate.Interner{}) == nil && f.Finished
}

// finishFacts keeps what the whole of an execution says, once it has its end.
func (s *Store) finishFacts(row int64, id execID, end trace.Finished, at int64) error {
	e, p, err := s.executionPage(row)
	if err != nil || e.labels == 0 { // it was opened by an earlier m3: what is needed is worked out when it is asked for
		return err
	}
	var f aggregate.Facts
	if err := f.Decode(e.facts, &aggregate.Interner{}); err != nil {
		return err
	}
	f.Finish(trace.New(id, &writtenLog{s: s, row: row}), end, at)
	facts := f.Append(nil)
	if len(facts) > maxFacts {
		if err := s.exec(`INSERT OR REPLACE INTO execution_facts (execution, facts) VALUES (?, ?)`, row, facts); err != nil {
			return err
		}
		facts = elsewhere
	}
	e.facts, p.dirty = facts, true
	return nil
}

// The dictionaries of labels.
const (
	evaluationLabels = "evaluation_labels"
	executionLabels  = "execution_labels"
)

// labels returns the number of a set of labels, which gets one when it is new.
func (s *Store) labels(table string, set any) (int64, error) {
	b, err := json.Marshal(set)
	if err != nil {
		return 0, &recordError{err}
	}
	key := table + string(b)
	if id, ok := s.sets[key]; ok {
		return id, nil
	}
	var id int64
	err = s.row(`SELECT id FROM `+table+` WHERE labels = ?`, string(b)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		id, err = s.newLabels(table, string(b), set)
	}
	if err != nil {
		return 0, err
	}
	if len(s.sets) >= maxWords {
		clear(s.sets)
	}
	s.sets[key] = id
	return id, nil
}

func (s *Store) newLabels(table, text string, set any) (id int64, err error) {
	row, ok := set.(aggregate.RowLabels)
	if !ok {
		err = s.row(`INSERT INTO execution_labels (labels) VALUES (?) RETURNING id`, text).Scan(&id)
		return id, err
	}
	evaluator, err := s.word(row.Evaluator)
	if err != nil {
		return 0, err
	}
	run, err := s.word(row.Run)
	if err != nil {
		return 0, err
	}
	err = s.row(`INSERT INTO evaluation_labels (evaluator, run, labels) VALUES (?, ?, ?) RETURNING id`, evaluator, run, text).Scan(&id)
	return id, err
}

// flush writes the pages that the transaction has changed.
func (s *Store) flush() error {
	for id, p := range s.pages.evaluations {
		if !p.dirty {
			continue
		}
		if p.data == nil {
			p.data = []byte{} // not null
		}
		if err := s.exec(`UPDATE evaluation_page SET data = ? WHERE id = ?`, p.data, id); err != nil {
			return err
		}
	}
	for id, p := range s.pages.executions {
		if !p.dirty {
			continue
		}
		if err := s.exec(`INSERT INTO execution_page (id, data) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET data = ?2`, id, p.append([]byte{})); err != nil {
			return err
		}
	}
	return nil
}

// writtenLog is the trace.Log of an execution within the transaction that writes it. It is for one goroutine, which reads it from the first event to
// the last, more or less.
type writtenLog struct {
	s      *Store
	row    int64
	n      int
	first  int // of the window
	window [][]byte
	next   int // the event after the one that was asked for last
}

// Len is that of [trace.Log].
func (l *writtenLog) Len() int {
	if l.n == 0 {
		_ = l.s.row(`SELECT coalesce(max(sequence) + 1, 0) FROM event WHERE execution = ?`, l.row).Scan(&l.n)
	}
	return l.n
}

// AppendEvent is that of [trace.Log].
func (l *writtenLog) AppendEvent(dst []byte, i int) ([]byte, error) {
	if i < l.first || i >= l.first+len(l.window) {
		limit := 1
		if i == l.next {
			limit = windowEvents
		}
		if err := l.fetch(i, limit); err != nil {
			return dst, err
		}
	}
	l.next = i + 1
	if i >= l.first+len(l.window) || l.window[i-l.first] == nil {
		return dst, fmt.Errorf("sqlite: event %d was never stored", i)
	}
	return append(dst, l.window[i-l.first]...), nil
}

func (l *writtenLog) fetch(i, limit int) error {
	l.first, l.window = i, l.window[:0]
	size := 0
	return l.s.each(`SELECT sequence, body FROM event WHERE execution = ? AND sequence >= ? AND sequence < ? ORDER BY sequence`, func(rows *sql.Rows) error {
		var seq int
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil || size > windowBytes {
			return err
		}
		for l.first+len(l.window) < seq {
			l.window = append(l.window, nil)
		}
		l.window = append(l.window, body)
		size += len(body)
		return nil
	}, l.row, i, i+limit)
}

// Blob is that of [trace.Log].
func (l *writtenLog) Blob(sha256 string) (b []byte, err error) {
	err = l.s.row(`SELECT data FROM blob WHERE sha256 = ?`, sha256).Scan(&b)
	return b, err
}

// HasBlob is that of [trace.BlobFinder].
func (l *writtenLog) HasBlob(sha256 string) (ok bool) {
	return l.s.row(`SELECT EXISTS (SELECT 1 FROM blob WHERE sha256 = ?)`, sha256).Scan(&ok) == nil && ok
}
