package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"

	"github.com/m3-go/m3/eval"
	"github.com/m3-go/m3/internal/aggregate"
	"github.com/m3-go/m3/store"
)

// lineageKey identifies a lineage in 16 bytes: the beginning of the SHA-256 of its parts, each after its length.
func lineageKey(l eval.Lineage) []byte {
	var b []byte
	for _, part := range []string{string(l.Execution), l.Attempt, l.Evaluator, string(l.Turn), l.SubjectKind, l.SubjectDigest} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:16]
}

// addEvaluation adds an evaluation, unless it is there. It stands already as store.Decode made it.
func (s *Store) addEvaluation(r *store.Evaluation) error {
	b, err := store.Encode(r)
	if err != nil {
		return &recordError{err}
	}
	var id int64
	err = s.row(`INSERT OR IGNORE INTO evaluation_record (evaluation_id, test_id, record) VALUES (?, ?, ?) RETURNING id`, r.ID, r.TestID, string(b)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it is there
	}
	if err != nil {
		return err
	}
	lineage := lineageKey(r.Lineage())
	latest, required, err := s.supersede(lineage, &r.Result)
	if err != nil {
		return err
	}
	args, err := s.evaluationColumns(&r.Result)
	if err != nil {
		return err
	}
	page, err := s.index(id, &r.Result, latest, required)
	if err != nil {
		return err
	}
	return s.exec(insertEvaluation, append([]any{id, lineage, latest, required, page}, args...)...)
}

// index keeps for aggregation what a new row says, and returns the page where that is.
func (s *Store) index(id int64, r *eval.Result, latest, required bool) (page any, err error) {
	row, _, err := s.parent(r)
	if err != nil {
		return nil, err
	}
	execution, _ := row.(int64)
	if execution != 0 {
		word, err := s.word(r.Evaluator)
		if err != nil {
			return nil, err
		}
		var declared bool
		err = s.row(`UPDATE execution_required SET met = 1 WHERE execution = ? AND evaluator = ? RETURNING 1`, execution, word).Scan(&declared)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		required = required || declared
		if err := s.readFacts(execution, r.Execution); err != nil {
			return nil, err
		}
	}
	if !latest {
		return nil, nil
	}
	l := aggregate.LabelsOf(r)
	labels, err := s.evaluationLabelsOf(&l)
	if err != nil {
		return nil, err
	}
	e := entryOf(id, execution, r, required)
	return s.addEntry(labels, &e)
}

const insertEvaluation = `INSERT INTO evaluation (id, lineage, latest, required, page, created_ns, kind, turn_id, status, score, suite_id, run, case_id, evaluator,
		subject_kind, provider, model, rubric, execution, orphan, metadata)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// supersede says whether r is the latest of its lineage so far, and whether it is required by then. The one that was the latest before is so no more; where that stays
// the latest, it becomes required when r is.
func (s *Store) supersede(lineage []byte, r *eval.Result) (latest, required bool, err error) {
	var row, created, page int64
	var was bool
	var id string
	err = s.row(`SELECT e.id, e.required, e.created_ns, e.page, r.evaluation_id FROM evaluation e JOIN evaluation_record r ON r.id = e.id WHERE e.lineage = ? AND e.latest`, lineage).
		Scan(&row, &was, &created, &page, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return true, r.Required, nil
	case err != nil:
		return false, false, err
	}
	if c := cmp.Or(cmp.Compare(created, nanos(r.Created)), cmp.Compare(id, r.ID)); c < 0 {
		if err := s.exec(`UPDATE evaluation SET latest = 0 WHERE id = ?`, row); err != nil {
			return false, false, err
		}
		return true, r.Required || was, s.removeEntry(page, row)
	}
	if r.Required && !was {
		if err := s.exec(`UPDATE evaluation SET required = 1 WHERE id = ?`, row); err != nil {
			return false, false, err
		}
		err = s.changeEntry(page, row, func(e *entry) { e.required = true })
	}
	return false, r.Required, err
}

func (s *Store) evaluationColumns(r *eval.Result) ([]any, error) {
	suite, err := s.suite(r.RunID, r.Suite)
	if err != nil {
		return nil, err
	}
	args := []any{nanos(r.Created), string(r.Kind), string(r.Turn), string(r.Status), r.Score, suite}
	for _, text := range []string{r.RunID, r.Case, r.Evaluator, r.SubjectKind} {
		id, err := s.word(text)
		if err != nil {
			return nil, err
		}
		args = append(args, id)
	}
	p := r.Provenance
	if p == nil {
		p = &eval.Provenance{}
	}
	for _, text := range []string{p.Provider, p.Model, p.RubricID} {
		if text == "" {
			args = append(args, nil)
			continue
		}
		id, err := s.word(text)
		if err != nil {
			return nil, err
		}
		args = append(args, id)
	}
	row, orphan, err := s.parent(r)
	if err != nil {
		return nil, err
	}
	metadata, err := metadataColumn(r.Metadata)
	return append(args, row, orphan, metadata), err
}

// parent is the row of the evaluated execution; its id where it has no row yet; neither for a detached evaluation.
func (s *Store) parent(r *eval.Result) (row, orphan any, err error) {
	if r.Execution == "" {
		return nil, nil, nil
	}
	if id, ok := s.rows[r.Execution]; ok {
		return id, nil, nil
	}
	var id int64
	err = s.row(`SELECT id FROM execution WHERE execution_id = ?`, string(r.Execution)).Scan(&id)
	switch {
	case err == nil:
		return id, nil, nil
	case errors.Is(err, sql.ErrNoRows):
		return nil, string(r.Execution), nil
	}
	return nil, nil, err
}

// adopt ties evaluations that came before their execution to its row.
func (s *Store) adopt(id execID, row int64) error {
	type orphan struct {
		id   int64
		page sql.NullInt64
	}
	var list []orphan
	err := s.each(`SELECT id, page FROM evaluation WHERE orphan = ? AND orphan IS NOT NULL`, func(rows *sql.Rows) error {
		var o orphan
		err := rows.Scan(&o.id, &o.page)
		list = append(list, o)
		return err
	}, string(id))
	if err != nil || len(list) == 0 {
		return err
	}
	if err := s.exec(`UPDATE evaluation SET execution = ?2, orphan = NULL WHERE orphan = ?1 AND orphan IS NOT NULL`, string(id), row); err != nil {
		return err
	}
	for _, o := range list { // their execution cannot have ended yet
		if !o.page.Valid {
			continue
		}
		if err := s.changeEntry(o.page.Int64, o.id, func(e *entry) { e.execution = row }); err != nil {
			return err
		}
	}
	return nil
}

func metadataColumn(m map[string]any) (any, error) {
	if len(m) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, &recordError{err}
	}
	return string(b), nil
}

// maxWords bounds how many words are remembered; the rest are asked for.
const maxWords = 4096

// word returns the number of a text, which gets one when it is new.
func (s *Store) word(text string) (int64, error) {
	if id, ok := s.words[text]; ok {
		return id, nil
	}
	var id int64
	err := s.row(`SELECT id FROM word WHERE text = ?`, text).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.row(`INSERT INTO word (text) VALUES (?) RETURNING id`, text).Scan(&id)
	}
	if err != nil {
		return 0, err
	}
	if len(s.words) >= maxWords {
		clear(s.words)
	}
	s.words[text] = id
	return id, nil
}

// Evaluations is that of [store.Reader].
func (s *Store) Evaluations(ctx context.Context, q *store.EvaluationQuery) ([]eval.Result, error) {
	if q == nil {
		q = &store.EvaluationQuery{}
	}
	where, args := []string{"true"}, []any(nil)
	add := func(value, condition string) {
		if value != "" {
			where, args = append(where, condition), append(args, value)
		}
	}
	const word = ` = (SELECT id FROM word WHERE text = ?)`
	add(q.RunID, "e.run"+word)
	add(q.Case, "e.case_id"+word)
	add(q.Evaluator, "e.evaluator"+word)
	add(string(q.Kind), "e.kind = ?")
	add(q.TestID, "r.test_id <> '' AND r.test_id = ?")
	add(strings.TrimSpace(q.Suite), "e.suite_id IN (SELECT suite_id FROM suite WHERE suite_name = ?)")
	if q.Execution != "" {
		where = append(where, `(e.execution = (SELECT id FROM execution WHERE execution_id = ?) OR e.orphan = ?)`)
		args = append(args, string(q.Execution), string(q.Execution))
	}
	if q.Required {
		where = append(where, `EXISTS (SELECT 1 FROM evaluation l WHERE l.lineage = e.lineage AND l.latest AND l.required)`)
	}
	if q.Latest {
		where = append(where, "e.latest")
	}
	if len(q.Statuses) > 0 {
		b, err := json.Marshal(q.Statuses)
		if err != nil {
			return nil, err
		}
		where, args = append(where, "e.status IN (SELECT value FROM json_each(?))"), append(args, string(b))
	}
	limit := -1
	if q.Limit > 0 {
		limit = q.Limit
	}
	records, err := records[store.Evaluation](ctx, s, `SELECT r.record FROM evaluation e JOIN evaluation_record r ON r.id = e.id
		WHERE `+strings.Join(where, " AND ")+` ORDER BY e.created_ns, r.evaluation_id LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	out := make([]eval.Result, len(records))
	for i := range records {
		out[i] = records[i].Result
	}
	return out, nil
}
