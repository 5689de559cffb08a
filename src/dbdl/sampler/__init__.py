"""The Gibbs sampler: draws from the model's conditionals, and the one loop."""
