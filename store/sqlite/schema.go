package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/m3-go/m3/store"
)

// SchemaVersion is the newest schema that this package knows: the number of its migrations.
const SchemaVersion = 2

// applicationID marks a database file as ours: "m3db" in its header. It is written before anything else.
const applicationID = 0x6d336462

// migrations make schema n from schema n-1. Never change one that was released: databases of each version are in testdata.
//
// A record column holds the record as store.Encode made it, and is what is read back; the other columns are for keys, order and
// people. Events have a rowid and a unique index rather than a primary key WITHOUT ROWID, because their bodies are large: that is
// a fifth faster to fill.
//
// Evaluations are aggregated by the million, so what is filtered and grouped by stands in narrow rows (texts that many rows share are words, by number), apart
// from their records. Which row of a lineage is the latest, and whether the lineage is required, is found out when a row is written.
var migrations = []string{`
CREATE TABLE run (
	id         INTEGER PRIMARY KEY,
	run_id     TEXT NOT NULL UNIQUE,
	started_ns INTEGER NOT NULL,
	record     TEXT NOT NULL
);
CREATE TABLE suite (
	suite_id   INTEGER PRIMARY KEY AUTOINCREMENT,
	run_id     TEXT NOT NULL,
	suite_name TEXT NOT NULL,
	UNIQUE (run_id, suite_name)
);
CREATE TABLE spool (
	id         INTEGER PRIMARY KEY,
	spool_id   TEXT NOT NULL UNIQUE,
	run_id     TEXT NOT NULL,
	package    TEXT NOT NULL,
	pid        INTEGER NOT NULL,
	started_at TEXT NOT NULL,
	m3_version TEXT NOT NULL,
	offset     INTEGER NOT NULL DEFAULT 0, -- read up to here
	bad        INTEGER NOT NULL DEFAULT 0, -- lines that could not be read
	open_runs  TEXT NOT NULL DEFAULT '[]', -- runs that its process is to end and has not
	done       INTEGER NOT NULL DEFAULT 0  -- its writer is gone and it was read to its end
);
CREATE TABLE test (
	id         INTEGER PRIMARY KEY,
	test_id    TEXT NOT NULL UNIQUE,
	run_id     TEXT NOT NULL,
	suite_id   INTEGER,
	spool      INTEGER,
	started_ns INTEGER NOT NULL,
	is_open    INTEGER NOT NULL,
	record     TEXT NOT NULL
);
CREATE INDEX test_run ON test (run_id, started_ns);
CREATE INDEX test_open ON test (spool) WHERE is_open;
CREATE TABLE item (
	id        INTEGER PRIMARY KEY,
	run_id    TEXT NOT NULL,
	package   TEXT NOT NULL,
	test      TEXT NOT NULL,
	iteration INTEGER NOT NULL,
	record    TEXT NOT NULL,
	UNIQUE (run_id, package, test, iteration)
);
CREATE TABLE execution (
	id           INTEGER PRIMARY KEY,
	execution_id TEXT NOT NULL UNIQUE,
	run_id       TEXT NOT NULL,
	suite_id     INTEGER,
	case_id      TEXT NOT NULL,
	test_id      TEXT NOT NULL,
	spool        INTEGER,
	created_ns   INTEGER NOT NULL,
	finished_at  TEXT,
	outcome      TEXT,
	complete     INTEGER NOT NULL DEFAULT 0,
	record       TEXT NOT NULL
);
CREATE INDEX execution_run ON execution (run_id, created_ns);
CREATE INDEX execution_test ON execution (test_id);
CREATE INDEX execution_open ON execution (spool) WHERE finished_at IS NULL;
CREATE TABLE event (
	execution INTEGER NOT NULL,
	sequence  INTEGER NOT NULL,
	kind      TEXT NOT NULL,
	body      BLOB NOT NULL
);
CREATE UNIQUE INDEX event_sequence ON event (execution, sequence);
CREATE TABLE blob (
	sha256 TEXT NOT NULL UNIQUE,
	data   BLOB NOT NULL
);
CREATE VIEW executions AS
SELECT e.execution_id, e.run_id, e.suite_id, s.suite_name, e.case_id, e.test_id,
	t.record ->> '$.package' AS package,
	t.record ->> '$.name' AS test,
	t.record ->> '$.status' AS test_status,
	e.record ->> '$.kind' AS kind,
	e.record ->> '$.servers' AS servers,
	e.record ->> '$.created_at' AS created_at,
	e.finished_at, e.outcome, e.complete,
	coalesce((SELECT max(sequence) + 1 FROM event WHERE execution = e.id), 0) AS event_count
FROM execution e
LEFT JOIN suite s ON s.suite_id = e.suite_id
LEFT JOIN test t ON t.test_id = e.test_id AND e.test_id <> ''
ORDER BY e.created_ns, e.id;
CREATE VIEW events AS
SELECT e.execution_id, v.sequence, v.kind, CAST(v.body AS TEXT) ->> '$.server' AS server,
	CAST(v.body AS TEXT) ->> '$.method' AS method, CAST(v.body AS TEXT) AS body
FROM event v JOIN execution e ON e.id = v.execution;
`, `
CREATE TABLE word (
	id   INTEGER PRIMARY KEY,
	text TEXT NOT NULL UNIQUE
);
CREATE TABLE evaluation (
	id           INTEGER PRIMARY KEY, -- that of evaluation_record
	lineage      BLOB NOT NULL,    -- 16 bytes of a SHA-256, see lineageKey
	latest       INTEGER NOT NULL, -- of its lineage
	required     INTEGER NOT NULL, -- as it was marked; of the latest, whether any of its lineage was
	created_ns   INTEGER NOT NULL,
	run          INTEGER NOT NULL, -- a word, as are case_id, evaluator, subject_kind, provider, model and rubric
	suite_id     INTEGER,
	case_id      INTEGER NOT NULL,
	execution    INTEGER,          -- the row of the execution
	orphan       TEXT,             -- the execution's id, as long as that has no row
	evaluator    INTEGER NOT NULL,
	kind         TEXT NOT NULL,
	subject_kind INTEGER NOT NULL,
	turn_id      TEXT NOT NULL,
	status       TEXT NOT NULL,
	score        REAL,
	provider     INTEGER,
	model        INTEGER,
	rubric       INTEGER,
	metadata     TEXT,             -- a JSON object
	page         INTEGER           -- where aggregation finds it, when it is the latest
);
CREATE UNIQUE INDEX evaluation_latest ON evaluation (lineage) WHERE latest;
CREATE INDEX evaluation_run ON evaluation (run, evaluator);
CREATE INDEX evaluation_evaluator ON evaluation (evaluator);
CREATE INDEX evaluation_execution ON evaluation (execution) WHERE execution IS NOT NULL;
CREATE INDEX evaluation_orphan ON evaluation (orphan) WHERE orphan IS NOT NULL;
CREATE INDEX evaluation_required ON evaluation (run) WHERE latest AND required;
CREATE TABLE evaluation_record (
	id            INTEGER PRIMARY KEY,
	evaluation_id TEXT NOT NULL UNIQUE,
	test_id       TEXT NOT NULL,
	record        TEXT NOT NULL
);
CREATE TABLE evaluation_labels (
	id        INTEGER PRIMARY KEY,
	evaluator INTEGER NOT NULL, -- words
	run       INTEGER NOT NULL,
	labels    TEXT NOT NULL UNIQUE
);
CREATE TABLE evaluation_page ( -- see pages.go
	id     INTEGER PRIMARY KEY,
	labels INTEGER NOT NULL,
	data   BLOB NOT NULL
);
CREATE INDEX evaluation_page_labels ON evaluation_page (labels);
CREATE TABLE execution_required ( -- what executions declare as required
	execution INTEGER NOT NULL,
	evaluator INTEGER NOT NULL, -- a word
	met       INTEGER NOT NULL, -- there is an evaluation
	PRIMARY KEY (execution, evaluator)
) WITHOUT ROWID;
CREATE INDEX execution_unmet ON execution_required (execution) WHERE NOT met;
CREATE TABLE execution_labels (
	id     INTEGER PRIMARY KEY,
	labels TEXT NOT NULL UNIQUE
);
CREATE TABLE execution_page ( -- see pages.go
	id   INTEGER PRIMARY KEY,
	data BLOB NOT NULL
);
CREATE TABLE execution_facts (
	execution INTEGER PRIMARY KEY,
	facts     BLOB NOT NULL
);
CREATE INDEX evaluation_test ON evaluation_record (test_id) WHERE test_id <> '';
CREATE VIEW evaluations AS
SELECT r.evaluation_id, w.text AS run_id, s.suite_name, c.text AS case_id, r.test_id,
	coalesce(x.execution_id, e.orphan) AS execution_id, e.turn_id, n.text AS evaluator, e.kind, k.text AS subject_kind,
	e.status, e.score, e.required, e.latest, r.record ->> '$.rationale' AS rationale, r.record ->> '$.message' AS message,
	r.record ->> '$.created_at' AS created_at
FROM evaluation e JOIN evaluation_record r ON r.id = e.id
JOIN word w ON w.id = e.run JOIN word c ON c.id = e.case_id JOIN word n ON n.id = e.evaluator JOIN word k ON k.id = e.subject_kind
LEFT JOIN suite s ON s.suite_id = e.suite_id LEFT JOIN execution x ON x.id = e.execution
ORDER BY e.created_ns, r.evaluation_id;
`}

// schemaVersion is 0 for a database without a schema.
func schemaVersion(ctx context.Context, c *sql.Conn) (int, error) {
	var n int
	if err := c.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'm3_schema'`).Scan(&n); err != nil || n == 0 {
		return 0, err
	}
	err := c.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM m3_schema`).Scan(&n)
	return n, err
}

// migrate brings the database to the newest of the migrations, in one transaction.
func migrate(ctx context.Context, c *sql.Conn, migrations []string) (err error) {
	if _, err := c.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.ExecContext(ctx, `ROLLBACK`)
		}
	}()
	// Read again under the lock: another process may have been faster.
	v, err := schemaVersion(ctx, c)
	if err != nil {
		return err
	}
	if v > len(migrations) {
		return newer(v, len(migrations))
	}
	if _, err := c.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS m3_schema (version INTEGER PRIMARY KEY, migrated_at TEXT NOT NULL)`); err != nil {
		return err
	}
	for ; v < len(migrations); v++ {
		if _, err := c.ExecContext(ctx, migrations[v]); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", v+1, err)
		}
		if _, err := c.ExecContext(ctx, `INSERT INTO m3_schema VALUES (?, strftime('%Y-%m-%dT%H:%M:%fZ'))`, v+1); err != nil {
			return err
		}
	}
	// In the file's header it is seen without SQLite: test processes look there before they record.
	if _, err := c.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, v)); err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, `COMMIT`)
	return err
}

func newer(have, know int) error {
	return fmt.Errorf("%w: it has schema %d, this m3 knows up to %d", store.ErrVersion, have, know)
}
