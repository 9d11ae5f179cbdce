"""Files of replies: the repertoire of a ranker is exported as JSONL or CSV, and imported from these and from workbooks."""
