"""The code in docstrings and pages runs, and the commands that pages name exist."""

from __future__ import annotations

import doctest
import re
import sys
import textwrap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dbdl

ROOT = Path(__file__).parents[1]
SOURCE = Path(dbdl.__file__).parent
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
CONVERGENCE = ROOT / "docs" / "convergence.md"
EXPLANATIONS = ROOT / "docs" / "explanations.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:src/dbdl|tests)/[\w/]+\.py)`")


def module_name(path):
    return ".".join(("dbdl", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


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


def test_the_code_of_the_readme_runs(few_sweeps, cluster, tmp_path, monkeypatch, capsys):
    """All of it, from top to bottom in one process, as somebody would who pastes it."""
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.array")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    species = np.arange(90) % 3
    X = rng.standard_normal((3, 8))[species] + 0.2 * rng.standard_normal((90, 8))
    table = pandas.DataFrame(X, columns=[f"band {i}" for i in range(8)])
    table.assign(species=species).to_parquet(tmp_path / "spectra.parquet", index=False)
    monkeypatch.chdir(tmp_path)
    names = {"dask_array": dask.from_array(X, chunks=(30, 8))}
    for _, code in blocks_of(README):
        exec(compile(code, str(README), "exec"), names)
    scores = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(scores) == 2 and min(scores) > 0.8
    predicted = names["model"].predict(names["dask_array"]).compute()
    assert (predicted == species).mean() > 0.9


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
            exec(compile(code, file, "exec"), vars(module))
            run_examples(module)
            names |= vars(module)
        else:
            known = {} if file is None else vars(import_module(module_name(ROOT / file)))
            exec(compile(code, str(CONTRIBUTING), "exec"), {**known, **names})


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=lambda page: page.name)
def test_commands_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE):
        assert target in targets
    for module in re.findall(r"python -m (benchmarks(?:\.\w+)?)", text):
        assert find_spec(module) is not None, module
    for script in re.findall(r"python (tests/\w+\.py)", text):
        assert (ROOT / script).is_file()


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=lambda page: page.name)
def test_files_and_pages_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (ROOT / link).exists(), link
    proposed = {file for file, _ in blocks_of(page)}
    for file in FILE.findall(text):
        assert (ROOT / file).exists() or file in proposed, file
