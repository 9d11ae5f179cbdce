"""What `benchmarks.federated` compares: exact sums of cohorts, and averaged weights."""
