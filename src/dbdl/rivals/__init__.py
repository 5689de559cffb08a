"""The methods that DBDL is compared with: one file each.

`dbdl.methods` lists them with their papers and the settings worth trying.
"""
