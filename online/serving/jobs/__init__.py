"""Long work beside the service: batch predictions, replays, reports."""
