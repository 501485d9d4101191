// Package bench holds the benchmarks: comparable, scripted, with corpora from a seeded generator.
package bench
