"""One small prediction server per framework, for benchmarks/serving.py."""
