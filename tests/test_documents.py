"""The code in docstrings and pages runs, and the commands that pages name exist."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
import textwrap
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

import dbdl
from dbdl.cli import COMMANDS, app
from dbdl.experiments.spec import Table

ROOT = Path(__file__).parents[1]
SOURCE = Path(dbdl.__file__).parent
DOCS = ROOT / "docs"
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
CONVERGENCE = DOCS / "convergence.md"
EXPLANATIONS = DOCS / "explanations.md"
PAGES = sorted(DOCS.glob("*.md"))
OWN_METHODS = DOCS / "own_methods.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
ANY_FENCE = re.compile(r"^( *)```(python|bash)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:src/dbdl|tests)/[\w/]+\.py)`")


def module_name(path):
    """Name of a module by its path in the package, which may be installed elsewhere than in src."""
    folder = SOURCE if path.is_relative_to(SOURCE) else ROOT / "src" / "dbdl"
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(("dbdl", *parts)).removesuffix(".__init__")


TEMPLATE = SOURCE / "rivals" / "_base.py"  # the rivals' example, before it is filled in
WITH_EXAMPLES = sorted(
    module_name(path)
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text("utf-8") and path != TEMPLATE
)


def run_examples(module):
    """Run the examples in the docstrings of a module; returns how many there were."""
    result = doctest.testmod(module, optionflags=OPTIONS, verbose=False, report=True)
    assert result.failed == 0
    return result.attempted


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_do_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(import_module(name)) > 0


def blocks_of(page):
    """Blocks of Python in a page, each with the file that the words before it name last."""
    text, end, blocks = page.read_text("utf-8"), 0, []
    for found in FENCE.finditer(text):
        files = FILE.findall(text[end : found.start()])
        blocks.append((files[-1] if files else None, textwrap.dedent(found[2])))
        end = found.end()
    return blocks


def all_blocks(page):
    """Blocks of Python and of commands in a page, in order: pairs of kind and text."""
    found = ANY_FENCE.finditer(page.read_text("utf-8"))
    return [(block[2], textwrap.dedent(block[3])) for block in found]


def has_code(page):
    """Whether a page has a block that can be run."""
    return bool(all_blocks(page))


@pytest.fixture
def few_sweeps(monkeypatch):
    """Defaults with which a fit is quick."""
    for name, value in {"n_sweeps": 2, "n_chains": 2, "coder": "forward"}.items():
        monkeypatch.setitem(dbdl.DBDLClassifier.__init__.__kwdefaults__, name, value)


@pytest.fixture
def cluster(monkeypatch):
    """A cluster in this process in place of one of the machine's cores; ended afterwards."""
    distributed = pytest.importorskip("dask.distributed")
    clients = []

    def start():
        clients.append(real(processes=False, n_workers=1, dashboard_address=None))
        return clients[-1]

    real = distributed.Client
    monkeypatch.setattr(distributed, "Client", start)
    yield
    for client in clients:
        client.close()


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """The files and names that pages speak of, from made-up rows of three species."""
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.array")
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    species = np.arange(90) % 3
    X = rng.standard_normal((3, 8))[species] + 0.2 * rng.standard_normal((90, 8))
    table = pandas.DataFrame(X, columns=[f"band {i}" for i in range(8)]).assign(species=species)
    table.to_csv("my_table.csv", index=False)
    for name in ("spectra.parquet", "new.parquet"):
        table.to_parquet(name, index=False)
    patients = pandas.DataFrame({
        "name": [f"P{i}" for i in range(90)], "dose": 3 * species + rng.random(90),
        "colour": np.array(["red", "blue", None])[rng.integers(0, 3, 90)],
        "visit": "2024-01-31", "outcome": np.array(["none", "mild", "severe"])[species],
    })  # fmt: skip
    for name in ("patients.csv", "new.csv", "test.csv"):
        patients.to_csv(name, index=False)
    for i, name in enumerate(("cats", "dogs")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for j in range(2):
            pixels = rng.integers(0, 255, (160, 160), dtype=np.uint8)
            pixels[:, : 10 * i + 10] = 200
            Image.fromarray(pixels).save(f"photos/{name}/{j}.png")
    np.savez("extended_yaleb_randomfaces504.npz", X=rng.random((8, 504)), y=np.arange(8) % 2)
    monkeypatch.setenv("DBDL_DATA", str(tmp_path))
    monkeypatch.setenv("DBDL_CACHE", str(tmp_path / "cache"))
    return {
        "dask_array": dask.from_array(X, chunks=(30, 8)), "X": X, "y": species, "X_new": X[:5],
        "X_train": np.where(X > 2, np.nan, X), "y_train": species, "X_test": X,
        "batches": [(X[:45], species[:45]), (X[45:], species[45:])],
        "wavelengths": np.linspace(400, 2400, 8), "DBDLClassifier": dbdl.DBDLClassifier,
        "train_test_split": partial(train_test_split, random_state=0), "species": species,
    }  # fmt: skip


#: Pages that take long: kernels of features of images, and of float32 rows, are compiled for them.
SLOW = ("data.md", "recipes.md")

#: Names of `prepared` that a page does not make itself.
GIVEN = {
    "README.md": ("dask_array",),
    "missing.md": ("DBDLClassifier", "X_train", "y_train", "X_test"),
    "online.md": ("DBDLClassifier", "batches", "X_new"),
    "priors.md": ("wavelengths", "X", "y"),
    "refusals.md": ("DBDLClassifier", "train_test_split", "X", "y", "X_new"),
    "scale.md": ("dask_array",),
}


def test_the_code_of_the_readme_runs(few_sweeps, cluster, prepared, capsys):
    """All of it, from top to bottom in one process, as somebody would who pastes it."""
    names = run_page(README, prepared)
    scores = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert scores and min(scores) > 0.8
    assert names["model"].n_atoms_ > 0


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in SLOW else ())
        for page in PAGES
        if page not in (CONVERGENCE, EXPLANATIONS) and has_code(page)
    ],
)
def test_the_code_of_a_page_runs(page, few_sweeps, cluster, prepared, monkeypatch):
    """From top to bottom, and with it the commands of its blocks for the shell."""
    if page.name == "refusals.md":  # 300 rows to judge by, of the 90 there are
        prepared |= {name: np.repeat(prepared[name], 10, axis=0) for name in ("X", "y")}
    run_page(page, prepared)


def run_page(page, prepared):
    """Run the blocks of a page in one namespace; without a GPU those for one run on the CPU."""
    names = {name: prepared[name] for name in GIVEN.get(page.name, ())}
    for kind, code in all_blocks(page):
        if kind == "bash":
            for command in code.splitlines():
                run_command(command)
        else:
            code = code.replace('device="cuda"', 'device="auto"')
            exec(compile(code, str(page), "exec"), names)
    return names


def run_command(line):
    """Run a line that starts with dbdl, in this process."""
    program, *arguments = shlex.split(line, comments=True)
    assert program == "dbdl", line
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{line}: {result.output}\n{result.exception!r}"


def test_the_code_of_the_page_on_convergence_runs(few_sweeps, monkeypatch):
    """With a chain for each of the automatic views, since the page names one of them."""
    pytest.importorskip("arviz_base")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setitem(dbdl.DBDLClassifier.__init__.__kwdefaults__, "n_chains", 7)
    names = {}
    with pytest.warns(UserWarning, match="converged"):
        for _, code in blocks_of(CONVERGENCE):
            exec(compile(code, str(CONVERGENCE), "exec"), names)
    assert names["low"].shape == names["model"].selection_probability_.shape


def test_the_code_of_the_page_on_explanations_runs(few_sweeps, capsys):
    names = {}
    for _, code in blocks_of(EXPLANATIONS):
        exec(compile(code, str(EXPLANATIONS), "exec"), names)
    assert capsys.readouterr().out.startswith("Predicted ")
    assert names["why"].training_rows


def test_the_page_on_own_methods_registers_one_and_describes_a_table_that_can_be_read():
    scope = {}
    for _, code in blocks_of(OWN_METHODS):
        exec(compile(code, "docs/own_methods.md", "exec"), scope)
    assert "naive Bayes" in dbdl.methods() and scope["model"].var_smoothing == 1e-6
    [toml] = re.findall(r"```toml\n(.*?)```", OWN_METHODS.read_text("utf-8"), re.DOTALL)
    address = "sklearn.neighbors:NearestCentroid"
    table = Table.from_toml(toml.replace("my_methods:NearestMean", address), "leaves.toml")
    assert (table.name, table.label, len(table.entries)) == ("leaves", "species", 2)


def test_the_code_of_contributing_runs(few_sweeps, tmp_path, monkeypatch):
    """Files that a page proposes are modules from then on; its tests pass; its lines can be run."""
    names = {}
    for number, (file, code) in enumerate(blocks_of(CONTRIBUTING)):
        if file is not None and file.startswith("tests/"):
            path = tmp_path / f"test_block_{number}.py"
            path.write_text(code, "utf-8")
            assert pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", path]) == 0
        elif file is not None and not (ROOT / file).exists():
            module = ModuleType(module_name(ROOT / file))
            monkeypatch.setitem(sys.modules, module.__name__, module)
            exec(compile(code, f"<{file}>", "exec"), vars(module))  # no file: not in coverage
            run_examples(module)
            names |= vars(module)
        else:
            known = {} if file is None else vars(import_module(module_name(ROOT / file)))
            exec(compile(code, str(CONTRIBUTING), "exec"), {**known, **names})


@pytest.mark.parametrize("page", [README, CONTRIBUTING, *PAGES], ids=lambda page: page.name)
def test_commands_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE):
        assert target in targets
    for module in re.findall(r"python -m (benchmarks(?:\.\w+)?)", text):
        assert find_spec(module) is not None, module
    for script in re.findall(r"python (tests/\w+\.py)", text):
        assert (ROOT / script).is_file()
    for command in re.findall(r"(?:^|`)dbdl ([a-z]+)\b", text, re.MULTILINE):
        assert command in COMMANDS, command


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    proposed = {file for file, _ in blocks_of(page)}
    for file in FILE.findall(page.read_text("utf-8")):
        assert (ROOT / file).exists() or file in proposed, file


@pytest.mark.parametrize(
    "page", [README, CONTRIBUTING, ROOT / "CHANGELOG.md", *PAGES], ids=lambda page: page.name
)
def test_links_within_the_repository_lead_somewhere(page):
    """To a file, and to a heading of it; pages of the gallery are its scripts."""
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        file = script_of(page.parent / name) if name else page
        assert file.exists(), link
        assert not heading or heading in headings(file), link


def without_code(page):
    """Return the text of a page without its blocks of code."""
    return re.sub(
        r"^( *)```\w.*?^\1```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def script_of(path):
    """Return the script behind a page of the gallery, and any other path as it is."""
    parts = path.relative_to(ROOT).parts if path.is_relative_to(DOCS / "gallery") else ()
    return (ROOT / "examples").joinpath(*parts[2:]).with_suffix(".py") if parts else path


def headings(page):
    """Return the anchors of a page's headings, as Markdown makes them."""
    text = page.read_text("utf-8")
    if page.name in ("contributing.md", "changelog.md"):  # the site's copies
        text = (ROOT / page.name.upper().replace(".MD", ".md")).read_text("utf-8")
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
