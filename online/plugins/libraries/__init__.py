"""Models of other libraries, river and scikit-learn, under our contract, and the import of an operator's own code."""
