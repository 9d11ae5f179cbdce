"""Checks of a service and of its replicas: what is wrong, what that means, and what to do."""
