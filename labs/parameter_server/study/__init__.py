"""What `labs.parameter_server.benchmark` consists of: data, runs, the exact kind beside them, and pictures."""
