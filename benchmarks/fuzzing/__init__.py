"""The parts of `python -m benchmarks.fuzz`: environments of the fuzzers, and what is fuzzed over HTTP."""
