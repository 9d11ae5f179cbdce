"""What curators decide: held feedback, and the inbox."""
