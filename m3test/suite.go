package m3test

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

var errBlankSuite = errors.New("the name is blank: give the suite a name, or leave the field empty for the one around it")

// suiteName trims a name that somebody gave. Empty stays empty: none was given.
func suiteName(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	trimmed := strings.TrimSpace(name)
	switch {
	case trimmed == "":
		return "", errBlankSuite
	case strings.ContainsFunc(trimmed, unicode.IsControl):
		return "", fmt.Errorf("the name %q holds a control character", trimmed)
	case len(trimmed) > 256:
		return "", fmt.Errorf("the name has %d bytes, at most 256 are allowed", len(trimmed))
	}
	return trimmed, nil
}

// errNoSuite is what RequireSuite makes of a test without one.
var errNoSuite = errors.New("the test has no suite, and m3test.Config.RequireSuite asks for one: " +
	"set m3test.Config.Suite for the package, or m3test.KitOptions.Suite for the test")

// notSelectedError says that m3 test --suite asked for other tests.
type notSelectedError struct{ suite, selected string }

func (e *notSelectedError) Error() string {
	return fmt.Sprintf("its suite is %q, and only the tests of suite %q are to run", e.suite, e.selected)
}

// suiteOf is the suite of the test with the name: the nearest that was given, from the test outwards. The caller holds p.mu.
func (p *process) suiteOf(test string) (string, error) {
	for name := test; name != ""; name = parentTest(name) {
		if suite := p.suites[name]; suite != "" {
			return suite, nil
		}
	}
	switch {
	case p.suite != "":
		return p.suite, nil
	case p.requireSuite:
		return "", errNoSuite
	default:
		return p.settings.packageSuite(), nil
	}
}

// parentTest is the name of the test around a subtest; empty for a test.
func parentTest(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}
