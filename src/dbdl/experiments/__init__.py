"""Experiments: tables of methods on the same splits, resumable, failures shown.

`spec` reads what a table is from a TOML file, `protocol` cuts the rows, `measure` fits one method
on one split, `run` walks the cells of a table, `summary` sets them beside the paper.
"""
