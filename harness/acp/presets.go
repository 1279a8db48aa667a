package acp

// placeholder
