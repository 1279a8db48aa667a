// Package oauth shows what a protected server says of its authorization: it follows the chain from a 401 to the metadata of the protected resource (RFC 9728)
// and of the authorization server (RFC 8414), step by step, as a client of MCP would. It starts no authorization, sends no credential, and follows
// no redirect: what it fetches with is given by its caller, who says which addresses may be reached.
package oauth
