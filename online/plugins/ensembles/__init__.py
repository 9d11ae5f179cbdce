"""Several models on one stream: `best_of`, and a champion with a challenger."""
