"""The wire over HTTP: connections, callers, our own routes, and pages. Other protocols are plugins."""
