"""The repertoire of a ranker: its replies, their example questions, and lists of them."""
