"""The chat model: chooses a reply from a repertoire."""
