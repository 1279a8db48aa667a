package m3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"

	"github.com/m3-go/m3/internal/isolation"
	"github.com/m3-go/m3/store"
	"github.com/m3-go/m3/trace"
)

// word is the mode as it is stored.
func (w Workspace) word() string { return orElse(w.mode, workspaceTemporary) }

// check looks at what can be looked at without touching the disk.
func (w Workspace) check(operation string, artifacts []string) error {
	switch {
	case w.mode != "" && w.dir == "":
		return validationf("%s: the workspace names no directory", operation)
	case w.mode == workspaceInPlace && !w.risk:
		return validationf("%s: an agent that works in place may change or delete anything in %s: say so with InPlace(dir, true), or use CopyOf", operation, w.dir)
	}
	for _, pattern := range artifacts {
		if err := isolation.CheckPattern(pattern); err != nil {
			return validationf("%s: the artifact %v", operation, err)
		}
	}
	return nil
}

// leave looks at what the agent left in its workspace, keeps what was declared, and removes what was made.
func (x *execution) leave(ctx context.Context) (change *WorkspaceChange, artifacts []Artifact, failed error) {
	if x.work != nil {
		change = x.changes()
		x.note(trace.KindWorkspaceChanged, trace.PhaseCleanup, map[string]any{"change": trace.Observe(change)})
		artifacts = x.keep(ctx)
		if err := x.work.Remove(context.WithoutCancel(ctx)); err != nil {
			failed = fmt.Errorf("remove the workspace: %w", err)
		}
	}
	if x.home != nil {
		if err := x.home.Remove(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove the agent's home: %w", err))
		}
	}
	return change, artifacts, failed
}

func (x *execution) changes() *WorkspaceChange {
	c := x.work.Changes()
	return &WorkspaceChange{Mode: x.act.workspace.word(), Added: x.changed(c.Added), Modified: x.changed(c.Modified), Deleted: x.changed(c.Deleted), Incomplete: c.Incomplete}
}

// changed redacts the paths: a name may be made of anything.
func (x *execution) changed(files []isolation.File) []ChangedFile {
	out := make([]ChangedFile, len(files))
	for i, f := range files {
		out[i] = ChangedFile{Path: x.kit.redactor.String(f.Path), SHA256: f.SHA256, Size: f.Size}
	}
	return out
}

// keep stores the declared artifacts, as the policy says.
func (x *execution) keep(ctx context.Context) (kept []Artifact) {
	x.mu.Lock()
	failed := x.failed != nil
	x.mu.Unlock()
	if len(x.act.artifacts) == 0 || x.act.keep == KeepNever || x.act.keep == KeepWhenFailed && !failed {
		return nil
	}
	err := x.work.Collect(x.act.artifacts, func(c *isolation.Collected) error {
		name := x.kit.redactor.String(c.Path)
		if c.Skipped != "" {
			x.diagnose(&trace.Diagnostic{Code: "artifact_skipped", Message: fmt.Sprintf("the artifact %s is not kept: %s", name, c.Skipped), Stage: "cleanup", Operation: "artifacts"}, trace.PhaseCleanup)
			return nil
		}
		a, err := x.keepOne(ctx, name, x.kit.redactor.Known(c.Data))
		if err == nil {
			kept = append(kept, a)
		}
		return err
	})
	if err != nil {
		x.tape.Limit("capture_incomplete", "not all declared artifacts were kept: "+err.Error())
	}
	return kept
}

func (x *execution) keepOne(ctx context.Context, name string, data []byte) (Artifact, error) {
	sum := sha256.Sum256(data)
	a := Artifact{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data)), MediaType: mime.TypeByExtension(path.Ext(name))}
	if a.MediaType == "" {
		a.MediaType = http.DetectContentType(data)
	}
	if err := x.kit.store.Append(context.WithoutCancel(ctx), &store.Blob{ExecutionID: x.id, SHA256: a.SHA256, Data: data}); err != nil {
		return a, err
	}
	x.note(trace.KindArtifactRecorded, trace.PhaseCleanup, a)
	return a, nil
}

// ReadArtifact returns the bytes of an artifact of the result, as they were kept: known secrets are replaced.
func (r *Result) ReadArtifact(name string) ([]byte, error) {
	for _, a := range r.Artifacts {
		if a.Name != name {
			continue
		}
		log, err := r.kit.log(r.ExecutionID)
		if err != nil {
			return nil, err
		}
		return log.Blob(a.SHA256)
	}
	return nil, validationf("ReadArtifact: execution %s kept no artifact %q", r.ExecutionID, name)
}
