package m3

// Workspace is the directory that an agent works in. Make one with [TemporaryWorkspace], [CopyOf], [WorktreeOf], [ReadOnly] or [InPlace]; the zero value is
// an empty temporary directory.
type Workspace struct {
	mode string
	dir  string
	risk bool
}

// The modes, as they are stored.
const (
	workspaceTemporary = "temporary"
	workspaceCopy      = "copy"
	workspaceWorktree  = "git_worktree"
	workspaceReadOnly  = "read_only"
	workspaceInPlace   = "in_place"
)

// TemporaryWorkspace is an empty directory that is removed afterwards: the zero value.
var TemporaryWorkspace = Workspace{}

// CopyOf is a copy of a directory, without version control, build output, .env files and files named like credentials. It is removed afterwards.
func CopyOf(dir string) Workspace { return Workspace{mode: workspaceCopy, dir: dir} }

// WorktreeOf is a git worktree of a repository at its HEAD, removed afterwards. Files that git does not have are not in it.
func WorktreeOf(dir string) Workspace { return Workspace{mode: workspaceWorktree, dir: dir} }

// ReadOnly is a copy as [CopyOf] makes it, without write permission.
func ReadOnly(dir string) Workspace { return Workspace{mode: workspaceReadOnly, dir: dir} }

// InPlace is the directory itself: the agent may change or delete anything in it, and reads what lies there, secrets included. acknowledgeRisk must be true.
func InPlace(dir string, acknowledgeRisk bool) Workspace {
	return Workspace{mode: workspaceInPlace, dir: dir, risk: acknowledgeRisk}
}

// ArtifactPolicy says when declared artifacts are kept.
type ArtifactPolicy string

// The policies.
const (
	KeepWhenFailed ArtifactPolicy = ""       // of executions that did not complete
	KeepAlways     ArtifactPolicy = "always" // of every execution
	KeepNever      ArtifactPolicy = "never"
)

// WorkspaceChange is what an execution left different in its workspace.
type WorkspaceChange struct {
	// Mode is how the workspace was made: temporary, copy, git_worktree, read_only, in_place.
	Mode string `json:"mode"`
	// Added, Modified and Deleted are files by their paths in the workspace, sorted.
	Added    []ChangedFile `json:"added"`
	Modified []ChangedFile `json:"modified"`
	Deleted  []ChangedFile `json:"deleted"`
	// Incomplete says why the list may lack something; empty when it does not.
	Incomplete string `json:"incomplete,omitempty"`
}

// ChangedFile is one file of a [WorkspaceChange].
type ChangedFile struct {
	Path string `json:"path"`
	// SHA256 is the lower-case hexadecimal digest of the content afterwards; of a deleted file, before.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size_bytes"`
}

// Artifact is a file of the workspace that was kept with the execution. Its bytes, redacted, are in the store under SHA256: see [Result.ReadArtifact].
type Artifact struct {
	Name      string `json:"name"` // the path in the workspace
	MediaType string `json:"media_type"`
	SHA256    string `json:"sha256"` // of what was kept
	Size      int64  `json:"size_bytes"`
}
