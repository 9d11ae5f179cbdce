"""A local language model that learns from thumbs as LoRA adapters, served as a route of the router."""
