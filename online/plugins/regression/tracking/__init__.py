"""The parts of a regression that follow a moving world: recent rows, members with short memories, adaptive intervals."""
