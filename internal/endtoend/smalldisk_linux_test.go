package endtoend

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// diskEnv says that this test binary runs in namespaces of its own, where it may mount.
const diskEnv = "ENDTOEND_OWN_MOUNTS"

// smallDisk is a directory on a disk of 3 MiB, a tmpfs; grow makes that 64. Mounting needs no privileges in a user namespace: the test runs again in one,
// in a process of its own, and that run's verdict is its verdict. There inside is true.
func smallDisk(t *testing.T) (dir string, grow func(), inside bool) {
	t.Helper()
	if os.Getenv(diskEnv) == "" {
		runInside(t)
		return "", nil, false
	}
	dir = t.TempDir()
	mount := func(flags uintptr, size string) {
		t.Helper()
		if err := syscall.Mount("small", dir, "tmpfs", flags, "mode=0700,size="+size); err != nil {
			t.Fatalf("mount: %v", err)
		}
	}
	mount(0, "3m")
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func() { t.Helper(); mount(syscall.MS_REMOUNT, "64m") }, true
}

func runInside(t *testing.T) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.v", "-test.timeout=5m", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), diskEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	said := string(out)
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EINVAL), strings.Contains(said, "mount: operation not permitted"), strings.Contains(said, "mount: permission denied"):
		t.Skipf("no user namespace to mount a small disk in (%v): TestFileLimit holds the same where files must not grow", err)
	case err != nil:
		t.Errorf("%v\n%s", err, said)
	case !strings.Contains(said, "--- PASS: "+t.Name()):
		t.Errorf("it did not run:\n%s", said)
	}
}
