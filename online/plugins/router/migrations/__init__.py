"""The migrations of the texts that language models have answered."""
