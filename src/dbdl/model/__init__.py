"""The model: pure mathematics, no loop over sweeps, no input or output."""
