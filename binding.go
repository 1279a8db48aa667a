package m3

import (
	"context"

	"github.com/m3-go/m3/internal/wire"
)

// Binding is a server with a name for one action, or one that may be missing. It is a [Server] itself, for RunOptions.Servers.
type Binding struct {
	// Server is the server.
	Server Server
	// Alias is its name in the action, in traces and in qualified tool names: letters, digits, _ and -. Empty: the server's own name.
	Alias string
	// Optional says that the action goes on without it when it cannot be started.
	Optional bool
}

// ServerName is the alias, else the server's own name.
func (b Binding) ServerName() string {
	if b.Alias != "" || b.Server == nil {
		return b.Alias
	}
	return b.Server.ServerName()
}

func (b Binding) check() error {
	if b.Server == nil || isNilPointer(b.Server) {
		return validationf("Binding %q: the server is nil", b.Alias)
	}
	if _, nested := b.Server.(Binding); nested {
		return validationf("Binding %q: the server is a Binding itself", b.Alias)
	}
	return b.Server.check()
}

func (b Binding) open(ctx context.Context, d *dialer, h wire.Handler) (wire.Transport, error) {
	return b.Server.open(ctx, d, h)
}

func (b Binding) describe(spec *directSpec) { b.Server.describe(spec) }

// unbound is the server itself.
func unbound(s Server) Server {
	if b, ok := s.(Binding); ok {
		return b.Server
	}
	return s
}
