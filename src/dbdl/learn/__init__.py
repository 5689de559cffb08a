"""Learning as plain functions: chains, label atoms, choices on held-out rows."""
