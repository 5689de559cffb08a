"""Discriminative Bayesian Dictionary Learning (DBDL)."""
