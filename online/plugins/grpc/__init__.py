"""gRPC: the server, its health service and the feedback service."""
