"""The options of every command, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from dbdl.cli import app


def commands_page() -> str:
    """Return a section per command: what it does, its usage, its arguments and options."""
    group = typer.main.get_command(app)
    with group.make_context("dbdl", ["methods"]) as context:
        return "\n".join(
            line
            for name in group.list_commands(context)
            for line in _section(name, group.get_command(context, name), context)
        )


def _section(name: str, command: Any, parent: Any) -> Iterator[str]:
    context = type(parent)(command, info_name=f"dbdl {name}")
    parameters = [p for p in command.get_params(context) if p.name != "help"]
    yield from (f"## dbdl {name}", "", _in_one_line(command.help), "")
    arguments = [p.name.upper() for p in parameters if p.param_type_name == "argument"]
    usage = " ".join((*arguments, "[OPTIONS]"))
    yield from ("```text", f"dbdl {name} {usage}", "```", "")
    yield from ("| | meaning | default |", "| --- | --- | --- |")
    yield from (_row(parameter, context) for parameter in parameters)
    yield ""


def _row(parameter: Any, context: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.name.upper()}`"
    default = parameter.get_default(context, call=False)
    shown = f"`{default}`" if isinstance(default, str | int) and default is not False else ""
    required = "required" if parameter.required else shown
    return f"| {names} | {_in_one_line(getattr(parameter, 'help', ''))} | {required} |"


def _in_one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
