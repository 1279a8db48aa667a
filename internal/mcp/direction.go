package mcp

// clientNotifications says in which versions a client sends each notification, by the ClientNotification unions of the official schemas. In
// 2026-07-28 the only one left is the cancellation.
var clientNotifications = map[string]span{
	"notifications/cancelled":          always,
	"notifications/initialized":        legacy,
	"notifications/progress":           legacy,
	"notifications/roots/list_changed": legacy,
	"notifications/tasks/status":       tasksNow,
}

// ClientNotifies reports whether a client of the protocol version may send the notification. A method that no version defines is an
// extension's, and anybody's to send; one that only servers send is not.
func ClientNotifies(protocol, method string) bool {
	if s, ok := clientNotifications[method]; ok {
		return Known(protocol) && s.has(protocol)
	}
	_, defined := methods[method]
	return !defined
}
