package trace

import "strings"

// JoinText joins the text of the text blocks with newlines.
func JoinText(blocks []Content) string {
	var b strings.Builder
	for _, c := range blocks {
		if c.Type != "text" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(c.Text)
	}
	return b.String()
}
