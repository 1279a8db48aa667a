package m3_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateWild = flag.Bool("update-wild", false, "write the table of docs/wild.md, which takes a minute: go-sdk's client hangs often")

const (
	tableBegin = "<!-- table: written by go test . -run TestWildTable -update-wild -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// tableRow is a case in docs/wild.md.
type tableRow struct{ id, what, transport, ours, findings, sdk, twin string }

func (r *tableRow) String() string {
	return "| " + strings.Join([]string{r.id, r.what, r.transport, r.ours, r.findings, r.sdk, r.twin}, " | ") + " |\n"
}

// TestWildTable holds docs/wild.md: a row for every case. What m3's client makes of each case, and of its twin, is played again and must be what
// stands there; go-sdk's column is played when the table is written, because waiting for what hangs takes its time.
func TestWildTable(t *testing.T) {
	t.Parallel()
	const path = "docs/wild.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(b), tableBegin)
	table, after, ok := strings.Cut(rest, tableEnd)
	if !ok {
		t.Fatalf("%s lacks the lines around its table", path)
	}
	cases := loadWild(t)
	rows := make([]*tableRow, len(cases))
	t.Run("rows", func(t *testing.T) {
		for i, w := range cases {
			t.Run(w.id, func(t *testing.T) {
				t.Parallel()
				rows[i] = w.row(t, *updateWild)
			})
		}
	})
	if slices.Contains(rows, nil) {
		t.Skip("not all rows were played (-run names some, or one failed): the table is compared only as a whole")
	}
	if !*updateWild {
		compareTable(t, path, table, rows)
		return
	}
	var out strings.Builder
	out.WriteString("| case | what | over | m3 | findings | go-sdk v1.8.0 | repaired twin |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		out.WriteString(r.String())
	}
	if err := os.WriteFile(path, []byte(before+tableBegin+out.String()+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// row plays a case over its first transport, and over go-sdk's client when asked to.
func (w *wildCase) row(t *testing.T, sdk bool) *tableRow {
	t.Helper()
	transport := w.transports[0]
	play := func(rules string) (*session, *played) {
		p := startWild(t, rules, transport)
		defer p.close()
		return w.playOurs(t, p), p
	}
	ours, _ := play(w.c.Server)
	twin, _ := play(w.c.Twin)
	r := &tableRow{id: "W-" + w.id, what: strings.ReplaceAll(w.title, "-", " "), transport: strings.Join(w.transports, ", "), ours: ours.summary(), findings: quoted(ours.codes()), twin: twin.summary()}
	if strings.HasPrefix(w.transports[0], "any") {
		r.transport = "http, then sse"
	}
	if codes := quoted(twin.codes()); codes != "none" {
		r.twin += "; " + codes
	}
	if sdk {
		p := startWild(t, w.c.Server, transport)
		defer p.close()
		r.sdk = w.playSDK(t, p, transport).summary()
	}
	return r
}

func quoted(codes []string) string {
	if len(codes) == 0 {
		return "none"
	}
	return "`" + strings.Join(codes, "` `") + "`"
}

var cells = regexp.MustCompile(` \| `)

// compareTable holds every column but go-sdk's, which must only be there.
func compareTable(t *testing.T, path, table string, rows []*tableRow) {
	t.Helper()
	var have []string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| W-") {
			continue
		}
		c := cells.Split(strings.Trim(line, "| \n"), -1)
		if len(c) != 7 || c[5] == "" {
			t.Errorf("%s: the row %q has not its seven columns", path, line)
			continue
		}
		have = append(have, strings.Join(slices.Delete(c, 5, 6), " | "))
	}
	for _, r := range rows {
		want := fmt.Sprintf("%s | %s | %s | %s | %s | %s", r.id, r.what, r.transport, r.ours, r.findings, r.twin)
		i := slices.Index(have, want)
		if i < 0 {
			t.Errorf("%s lacks the row\n%s", path, want)
			continue
		}
		have = slices.Delete(have, i, i+1)
	}
	for _, line := range have {
		t.Errorf("%s has a row that is not so:\n%s", path, line)
	}
}

// reported are the ids of the public reports that a server can play, or that a client can have.
const reported = `A01 A02 A04 A05 A07 A08 A10 A11 A13 A14 A16 A17 A19 A20 B01 B02 B04 B05 B07 B08 B10 B11 B13 B14 B16 C01 C02 C04 C05 C07 
C08 C10 C11 C13 C14 D01 D02 D04 D05 D07 D08 D10 D11 D13 D14 D16 D17 D19 D20 D22 D23 E01 E02 E04 E05 E07 E08 E10 E11 E13 
E14 E16 E17 E19 E20 E22 E23 E25 E26 E28 E29 E31 E32 E34 E35 E37 F01 F02 F04 F05 G01 G02 G04 G05 H01 H02 H04 H05 H07 H08 
H10 H11 H13 H14 H16`

// TestWildIsWhole: docs/wild.md has a place for every report.
func TestWildIsWhole(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("docs/wild.md")
	if err != nil {
		t.Fatal(err)
	}
	for id := range strings.FieldsSeq(reported) {
		if !regexp.MustCompile(`W-` + id + `\b`).Match(b) {
			t.Errorf("docs/wild.md does not say where W-%s is shown", id)
		}
	}
}
