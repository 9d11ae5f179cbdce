"""Reports of the devices: which model learns and answers on which, and where memory ran out."""
