"""``python -m dbdl``: the command `dbdl`."""

from dbdl.cli import main

main()
