"""The command ``dbdl``: parse, call the package once, print.

`commands` declares the commands, `inputs` reads data and names, `outputs` checks files before hours
are spent on them, `terminal` prints, and `errors` turns mistakes into messages and exit codes.
"""

from dbdl.cli.commands import app, main

__all__ = ["app", "main"]
