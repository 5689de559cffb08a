"""Equations as MathML, which browsers draw themselves: no script and no font is fetched."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import latex2mathml

#: Commands about the size of things, which the converter does not know and browsers do not need.
_SIZES = re.compile(r"\\(?:[Bb]igg?|textstyle|displaystyle)(?![a-zA-Z])\s*")


def to_mathml(text: str, *, block: bool) -> str:
    """Return the MathML of a formula in LaTeX."""
    text = _SIZES.sub("", text)
    if block and ("\\\\" in text or "&" in text) and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    return latex2mathml.tex2mathml(text, as_block=block)


class MathML:
    """Visitors of Sphinx's writer of HTML."""

    @staticmethod
    def visit(self, node):
        """Write a formula within a line."""
        self.body.append(to_mathml(node.astext(), block=False))
        raise nodes.SkipNode

    @staticmethod
    def visit_block(self, node):
        """Write a formula of its own line."""
        self.body.append(f'<div class="formula">{to_mathml(node.astext(), block=True)}</div>')
        raise nodes.SkipNode
