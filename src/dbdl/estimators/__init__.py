"""The scikit-learn estimators: thin shells over the functions of `dbdl.learn`."""
