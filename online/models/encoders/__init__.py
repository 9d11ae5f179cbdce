"""From an instance to the bytes that are logged and learned."""
