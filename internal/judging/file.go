package judging

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// file is a counter that processes share: a file whose length in bytes is the count. Whoever adds a byte holds the file's lock, so
// nothing is counted twice; the kernel drops the lock of a process that dies. A single byte is written or it is not: there is no state between.
type file string

// Create makes the file of a shared counter. One that is there already stays as it is.
func Create(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (c file) spent() (int, error) {
	info, err := os.Stat(string(c))
	if err != nil {
		return 0, err
	}
	return int(info.Size()), nil
}

func (c file) spend(ctx context.Context, most int) error {
	f, err := os.OpenFile(string(c), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close() // and with it the lock
	if err := lock(ctx, f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() >= int64(most) {
		return ErrExhausted
	}
	_, err = f.Write([]byte{'.'})
	return err
}

// lock waits for the file's lock until ctx ends: a process may have been stopped while it held it.
func lock(ctx context.Context, f *os.File) error {
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
