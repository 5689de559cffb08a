"""Which method? A chart of questions, and a table of every method of the registry.

A method that no group names is listed in the last group of the table: a line in the registry is
enough for it to appear here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import dbdl
from dbdl.registry import PACKAGED, Method


@dataclass(frozen=True)
class Group:
    """Methods that work alike."""

    title: str
    words: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """A question of the chart: whoever says yes tries these methods first."""

    question: str
    reason: str
    names: tuple[str, ...]


QUESTIONS = (
    Question(
        "Is the table mixed: numbers in different units, categories, dates?",
        "A sparse sum of rows means little there. Trees take each column by itself.",
        ("boosting",),
    ),
    Question(
        "May a row and its negative belong to the same class?",
        "Centred signals of random polarity are like that. Linear methods and the paper's model "
        "give a row and its negative opposite scores, and cannot be right about both. These can.",
        ("DBDL", "RBF SVM", "CRC"),
    ),
    Question(
        "Are there very many rows with few features?",
        "Where a class fills the space, there is little to gain from sparse codes, and they take "
        "much longer.",
        ("boosting", "RBF SVM"),
    ),
    Question(
        "Does the fit have to take less than a second?",
        "Most of these take milliseconds. On spectra, images and embeddings they are often close.",
        ("shrunken LDA", "logistic", "linear SVM", "ridge", "ProCRC", "DBDL 1 chain"),
    ),
    Question(
        "Should the dictionary be small, with fewer than ten atoms per class?",
        "DBDL is the most accurate with few atoms too, but has several dictionaries. On Extended "
        "YaleB, DPL is 0.7 points behind it with 4 and 8 atoms per class.",
        ("DPL", "LDL", "FDDL", "DL-COPAR (global)", "LRSDL"),
    ),
    Question(
        "Do you reproduce the paper?",
        "Its own settings, and the methods of its tables.",
        ("DBDL (paper)", "LC-KSVD1", "LC-KSVD2", "D-KSVD", "FDDL", "DL-COPAR", "SRC"),
    ),
    Question(
        "Otherwise: spectra, images or embeddings, with few rows per class?",
        "Probabilities that can be trusted, refusals, missing values, new classes, and atoms that "
        "can be looked at. Run `dbdl compare` to see whether it pays on your rows.",
        ("DBDL",),
    ),
)

GROUPS = (
    Group(
        "DBDL and its variants",
        "Dictionaries by Gibbs sampling, with a probability per class and atom.",
        ("DBDL", "DBDL 1 chain", "DBDL (paper)"),
    ),
    Group(
        "Dictionaries without learning",
        "Their atoms are training rows. They answer the question how much learning adds.",
        (
            "DBDL unlearned", "random rows + ridge", "bagged rows", "training rows", "SRC",
            "SRC (OMP)", "CRC", "ProCRC", "SA-CRC", "LLC",
        ),
    ),
    Group(
        "In whitened views",
        "Rivals that see the rows through one of the views of DBDL, chosen on training rows.",
        ("CRC (whitened)", "SRC (OMP whitened)", "LLC (whitened)", "DPL (whitened)"),
    ),
    Group(
        "One dictionary per class",
        "A row belongs to the class whose atoms explain it best. Some add atoms that all classes "
        "share.",
        (
            "DPL", "DLSI", "FDDL", "FDDL (local)", "LRSDL", "DL-COPAR", "DL-COPAR (global)", "LDL",
        ),
    ),
    Group(
        "One dictionary and a linear classifier",
        "Atoms by K-SVD; the variants differ in whether the labels take part.",
        ("K-SVD", "D-KSVD", "LC-KSVD1", "LC-KSVD2"),
    ),
    Group(
        "From scikit-learn",
        "Without a dictionary. All but boosting choose between rows of unit norm and standardised "
        "features.",
        ("ridge", "linear SVM", "logistic", "1-NN", "shrunken LDA", "RBF SVM", "boosting"),
    ),
)  # fmt: skip


def packaged() -> dict[str, Method]:
    """Return the methods of the package by name, without those that a process registered."""
    return {method.name: method for method in PACKAGED}


def groups() -> list[Group]:
    """Return the groups, and one for methods that no group names."""
    named = {name for group in GROUPS for name in group.names}
    others = tuple(name for name in packaged() if name not in named)
    return [*GROUPS, *([Group("Other methods", "", others)] if others else [])]


def class_of(method: Method) -> type:
    """Return the class behind a method; that within if it stands behind scaled or mapped rows."""
    estimator = method()
    if type(estimator).__module__.startswith("dbdl.rivals._"):  # it passes rows on to another
        estimator = estimator.classifier
    return type(estimator)


def path_of(method: Method) -> str:
    """Return the full public name of a method's class."""
    kind = class_of(method)
    if kind.__module__.startswith("dbdl."):
        room = "dbdl" if hasattr(dbdl, kind.__name__) else kind.__module__
    else:
        room = ".".join(kind.__module__.split(".")[:2])  # sklearn.svm._classes is private
    return f"{room}.{kind.__name__}"


def address_of(method: Method) -> str:
    """Return the address of the page of a method's class: ours, or scikit-learn's."""
    path = path_of(method)
    if path.startswith("dbdl."):
        return f"api/{path}.html"
    return f"https://scikit-learn.org/stable/modules/generated/{path}.html"


def methods_chart() -> str:
    """Return the chart as HTML: a column of questions, each with the methods to try."""
    known = packaged()
    items = "\n".join(_item(question, known) for question in QUESTIONS)
    return f'```{{raw}} html\n<ol class="chart">\n{items}\n</ol>\n```\n'


def _item(question: Question, known: dict[str, Method]) -> str:
    links = "\n".join(_link(known[name]) for name in question.names)
    return (
        f"<li><p class='chart-question'>{escape(question.question)}</p>"
        f"<p class='chart-reason'>{_with_code(question.reason)}</p>"
        f"<p class='chart-methods'>{links}</p></li>"
    )


def _with_code(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _link(method: Method) -> str:
    return f'<a href="{address_of(method)}">{escape(method.name)}</a>'


def methods_table() -> str:
    """Return a table per group: name, paper, what it does, and the settings worth trying."""
    return "\n".join(line for group in groups() for line in _rows(group))


def _rows(group: Group) -> Iterator[str]:
    known = packaged()
    yield from (f"## {group.title}", "", group.words, "")
    yield from ("| method | in a line | from | settings worth trying |", "| --- " * 4 + "|")
    for method in (known[name] for name in group.names if name in known):
        grid = "; ".join(f"`{name}` {_values(values)}" for name, values in method.grid.items())
        yield f"| {_name_link(method)} | {method.in_a_line} | {method.paper} | {grid} |"
    yield ""


def _name_link(method: Method) -> str:
    path = path_of(method)
    if path.startswith("dbdl."):
        return f"{{py:obj}}`{method.name} <{path}>`"
    return f"[{method.name}]({address_of(method)})"


def _values(values: tuple[object, ...]) -> str:
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
