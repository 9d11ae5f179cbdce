"""The command line `online`: one module per command, the options they share in `options`."""
