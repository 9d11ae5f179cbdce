"""Neural networks that are trained on the stream."""
