"""The migrations of the answers of shadow versions."""
