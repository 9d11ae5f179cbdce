"""What `benchmarks.parameter_server` consists of: data, runs, the exact kind beside them, and pictures."""
