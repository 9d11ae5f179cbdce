"""The scoring of answers, live and in a replay alike."""
