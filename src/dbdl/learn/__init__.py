"""Learning as plain functions: a chain from rows, label atoms from codes, choices on held-out rows."""
