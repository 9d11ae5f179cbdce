"""The Open Inference Protocol v2 (KServe, Triton) over HTTP and gRPC."""
