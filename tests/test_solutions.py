"""The code in the folded solutions of a chapter runs, and prints numbers."""

import ast
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

CHAPTERS = sorted(Path(__file__).parents[1].glob("chapters/*.ipynb"))
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def definitions(notebook):
    """Return what a reader has at hand after the chapter: its imports and its functions."""
    kept = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            kept += [
                node
                for node in ast.parse(cell.source).body
                if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)
            ]
    return ast.Module(kept, type_ignores=[])


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_solutions_run(chapter, capsys):
    notebook = nbformat.read(chapter, as_version=4)
    names = {"rng": np.random.default_rng(0)}
    exec(compile(definitions(notebook), chapter.name, "exec"), names)
    solutions = [
        code
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for code in CODE.findall(cell.source)
    ]
    assert solutions, "no solution with code"
    for code in solutions:
        exec(code, names)  # in order: a later block may use what an earlier one made
        printed = capsys.readouterr().out
        assert re.search(r"\d", printed), f"prints no number:\n{code}"
        assert "nan" not in printed
