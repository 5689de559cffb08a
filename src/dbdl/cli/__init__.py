"""The command ``dbdl``: parse, call the package once, print.

The commands are functions in `learning`, `explain`, `maps`, `comparing`, `pages` and `listing`; the
table `COMMANDS` names them. `options` has the options that they share, `inputs` and `scenes` read
data, `outputs` checks files before hours are spent on them, `terminal` prints, and `errors` turns
mistakes into messages and exit codes.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dbdl.cli import comparing, errors, explain, learning, listing, maps, pages, terminal

__all__ = ["COMMANDS", "app", "main"]

#: The commands, in the order in which the help lists them.
COMMANDS: dict[str, Callable[..., Any]] = {
    "fit": learning.fit,
    "predict": learning.predict,
    "explain": explain.explain,
    "map": maps.map_scene,
    "compare": comparing.compare,
    "reproduce": comparing.reproduce,
    "report": pages.report,
    "figures": pages.figures,
    "data": listing.list_data,
    "methods": listing.list_methods,
}

app = typer.Typer(
    name="dbdl",
    cls=errors.Commands,
    help="Discriminative Bayesian dictionary learning, and the methods it is compared with.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _help(command: Any) -> str:
    """Return what a command does, one line per paragraph: the terminal wraps the lines."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for _name, _command in COMMANDS.items():
    app.command(_name, help=_help(_command))(_command)


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=listing.show_version, help="Version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; see `dbdl.cli.errors` for exit codes."""
    terminal.show_warnings_as_notes()
    errors.raise_swallowed_interrupts()
    app()
