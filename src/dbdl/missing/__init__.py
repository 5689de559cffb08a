"""Missing values (NaN): filled before a view is learned, and drawn in every sweep of a chain."""
