"""The replies that a ranker may give."""
