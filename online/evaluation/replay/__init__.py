"""Replays a log through models: predict, score, then learn."""
