"""Experiments: tables of methods on the same splits, resumable, with failures shown.

`spec` reads the definition of a table from a TOML file, `rows` takes a data set's rows, `protocol`
splits them, `warm` compiles before a clock starts, `measure` fits one method on one split, `run`
walks the cells of a table, and `summary` sets their means beside the paper's numbers.
"""
