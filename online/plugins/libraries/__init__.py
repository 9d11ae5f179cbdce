"""Models of other libraries, river and scikit-learn, under our contract."""
