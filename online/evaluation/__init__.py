"""Replays recorded streams through models, and judges them. Writes nothing but reports."""
