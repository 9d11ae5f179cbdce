"""The bits of quantised weights: what an exported file has, and what a network is trained for."""

LEAST_WEIGHTS = 4_096  # of a matrix; a smaller one saves less than its scales and the added operators cost
LARGEST_WEIGHT = 64  # of 7 bits with a sign: some processors lose digits when they add products of 8 bits
