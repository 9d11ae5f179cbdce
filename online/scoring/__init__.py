"""How an answer is judged, live and in a replay alike."""
