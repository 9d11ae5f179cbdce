"""Routes for other devices: what they answer, encode and learn with."""
