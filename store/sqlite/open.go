package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/m3-go/m3/store/spool"
)

// lockWait is how long Open waits for another process that takes in spools. Ingest waits as long as its context lets it.
const lockWait = 30 * time.Second

// readers is how many connections read at once.
const readers = 4

const magic = "SQLite format 3\x00"

// Open opens the database at path, which is made with its directory when it is not there, and takes in the spools that
// are left for it: straight after a recorded go test it has everything.
//
// A file that is no database of m3 is refused and not touched; a newer schema or spool is refused with an error that
// wraps [store.ErrVersion] and names both versions.
func Open(path string) (*Store, error) {
	s, err := open(path, migrations)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return s, nil
}

func open(path string, migrations []string) (*Store, error) {
	if path == "" {
		return nil, errors.New("the path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := checkFile(path); err != nil {
		return nil, err
	}
	s := &Store{path: path, rows: map[execID]int64{}, words: map[string]int64{}, sets: map[string]int64{}, stmts: map[string]*sql.Stmt{}}
	if err := s.connect(migrations); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	wait, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	if _, err := s.ingest(context.Background(), wait); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// checkFile makes sure that there is a file of ours, or an empty one, without changing any other.
func checkFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createFile(path)
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is not a regular file (%s): give the path of the database file itself", info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0 && err == io.EOF:
		return nil
	case !bytes.HasPrefix(head[:n], []byte(magic)):
		return fmt.Errorf("it is not an SQLite database (it begins with %.16q): give another path, or move the file away", head[:n])
	case err != nil:
		return fmt.Errorf("it is a damaged SQLite database (%d bytes): move it away, or restore it", n)
	}
	if id := binary.BigEndian.Uint32(head[68:]); id != applicationID {
		return fmt.Errorf("it is an SQLite database, but not one of m3 (application id %#x): give another path", id)
	}
	return nil
}

func createFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// connect opens the connections, and makes or migrates the schema when that is needed.
func (s *Store) connect(migrations []string) error {
	ctx := context.Background()
	var err error
	if s.writeDB, err = sql.Open("sqlite", dsn(s.path, "synchronous(NORMAL)")); err != nil {
		return err
	}
	s.writeDB.SetMaxOpenConns(1)
	if s.readDB, err = sql.Open("sqlite", dsn(s.path, "query_only(1)")); err != nil {
		return err
	}
	s.readDB.SetMaxOpenConns(readers)
	s.readDB.SetMaxIdleConns(readers)
	if s.conn, err = s.writeDB.Conn(ctx); err != nil {
		return unwritable(err)
	}
	v, err := schemaVersion(ctx, s.conn)
	switch {
	case err != nil:
		return unwritable(err)
	case v > len(migrations):
		return newer(v, len(migrations))
	case v < len(migrations):
		if err := s.setUp(ctx, migrations); err != nil {
			return unwritable(err)
		}
	}
	return s.tighten()
}

// setUp is done under the ingest lock: two processes that make one database at once would find it busy, and some of the
// statements do not wait then.
func (s *Store) setUp(ctx context.Context, migrations []string) error {
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := s.lock(wait)
	if err != nil {
		return err
	}
	defer unlock()
	var id int64
	if err := s.conn.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return err
	}
	if id != applicationID {
		// The mark comes before WAL, so that it is in the file's own header from the first moment on. Nothing waits for the disk, as
		// long as there is nothing to lose.
		if _, err := s.conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA synchronous = OFF; PRAGMA application_id = %d`, applicationID)); err != nil {
			return err
		}
	}
	if _, err := s.conn.ExecContext(ctx, `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL`); err != nil {
		return err
	}
	return migrate(ctx, s.conn, migrations)
}

// lock takes the ingest lock of the database.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(s.path+".ingest.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := spool.Lock(ctx, f, syscall.LOCK_EX); err != nil {
		f.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w (%w)", ErrLocked, err)
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

// tighten makes the database's files readable for their owner alone.
func (s *Store) tighten() error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(s.path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().Perm() != 0o600 {
			err = os.Chmod(s.path+suffix, 0o600)
		}
		if err != nil {
			return fmt.Errorf("make it private: %w", err)
		}
	}
	return nil
}

func dsn(path, pragma string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=rw&_pragma=busy_timeout(5000)&_pragma=" + pragma}
	return u.String()
}

// unwritable explains what SQLite says tersely.
func unwritable(err error) error {
	if s := err.Error(); strings.Contains(s, "unable to open database file") || strings.Contains(s, "readonly database") || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (file and directory must be writable: SQLite keeps its log beside the database)", err)
	}
	return err
}
