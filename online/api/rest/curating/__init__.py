"""Routes for curators: held feedback, and the inbox."""
