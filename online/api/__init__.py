"""The wire: HTTP and gRPC, one folder for each protocol."""
