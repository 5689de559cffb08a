"""The methods that DBDL is compared with: one file each, thin classifiers over plain functions.

`dbdl.methods` lists them with their papers and the settings worth trying.
"""
