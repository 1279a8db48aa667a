package runner

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// EnvTimeout is the deadline of agents' actions and turns that name none: a number of seconds, or a duration such as 90s.
const EnvTimeout = "M3_EXECUTION_TIMEOUT"

// ParseTimeout reads 90, 1.5 or 90s. An empty text is 0: none was given.
func ParseTimeout(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.ParseFloat(text, 64); nerr == nil && !math.IsNaN(n) && n < float64(math.MaxInt64)/float64(time.Second) {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("want a positive number of seconds, or a duration such as 90s")
	}
	return d, nil
}
