package m3test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// What store/sqlite marks its databases with. It is not imported here, because a test binary must not link SQLite.
const (
	databaseMagic   = "SQLite format 3\x00"
	databaseID      = 0x6d336462 // at offset 68 of the header
	databaseVersion = 2          // the newest schema, at offset 60; 0 in those of before it was written there
)

// checkDatabase finds out whether what the test process spools can get into the database later: it is not there yet, is empty, or is one of m3.
// What is only in its log (-wal) is not looked at.
func checkDatabase(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return nil // the spool beside it will say so better
	case !info.Mode().IsRegular():
		return fmt.Errorf("the database %s is not a regular file (%s)", path, info.Mode().Type())
	case info.Size() == 0:
		return nil
	}
	head, err := header(path)
	switch {
	case err != nil:
		return fmt.Errorf("the database %s cannot be read: %w", path, err)
	case !bytes.HasPrefix(head, []byte(databaseMagic)):
		return fmt.Errorf("%s is not an SQLite database (it begins with %.16q)", path, head)
	case len(head) < 100:
		return fmt.Errorf("%s is a damaged SQLite database (%d bytes)", path, len(head))
	}
	if id := binary.BigEndian.Uint32(head[68:]); id != databaseID {
		return fmt.Errorf("%s is an SQLite database, but not one of m3 (application id %#x)", path, id)
	}
	if v := binary.BigEndian.Uint32(head[60:]); v > databaseVersion {
		return fmt.Errorf("the database %s has schema %d, written by a newer m3; this one knows schema %d", path, v, databaseVersion)
	}
	return nil
}

// header is the beginning of the file, at most the 100 bytes of SQLite's header.
func header(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}
