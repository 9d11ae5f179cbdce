"""Replays recorded streams and evaluates policies on them. Writes nothing but reports."""
