"""The process that answers requests and records them. It never trains a model."""
