"""TensorFlow Serving's API over HTTP and gRPC."""
