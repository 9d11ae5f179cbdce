"""Routes for curators: held feedback."""
