"""The migrations of answered texts and of added routes."""
