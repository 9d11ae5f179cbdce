"""Sources of a replay: our own log, files of labelled rows, datasets, and Vowpal Wabbit's formats."""
