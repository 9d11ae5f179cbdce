"""What lets a regression follow a moving world: recent rows, members with short memories, adaptive intervals."""
