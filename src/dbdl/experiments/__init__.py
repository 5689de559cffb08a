"""Experiments: tables of methods on the same splits, resumable, failures shown.

`spec` reads what a table is from a TOML file, `rows` takes a data set's rows, `protocol` splits
them, `warm` compiles before a clock starts, `measure` fits one method on one split, `run` walks the
cells of a table, `summary` sets them beside the paper.
"""
