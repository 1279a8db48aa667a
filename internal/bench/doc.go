// Package bench holds the benchmarks of m3's promises of speed and memory. Each reports ratios against the official SDK's bare client, or
// against the same work without m3, measured in turn (A B B A) in one run, and then checks that the evidence is complete: a fast
// capture that loses frames would be worth nothing. docs/benchmarks.md holds the figures and how to repeat them.
package bench
