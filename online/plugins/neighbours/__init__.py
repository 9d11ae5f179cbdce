"""k-nearest neighbours."""
