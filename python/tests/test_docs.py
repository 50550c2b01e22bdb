"""The page, the docstrings and the stubs are what the module is."""

import ast
import doctest
import inspect
import os
import re
import shutil
from pathlib import Path

import asap
import pytest
from asap import _asap, _functions, _jobs
from conftest import ROOT

SOURCE = ROOT / "python/python/asap"


def test_the_examples_of_docstrings_run():
    tried = 0
    for name, documented in [("asap", asap), ("functions", asap.functions), *_functions.FUNCTIONS.items(), ("sql", _jobs.sql), ("settings", _jobs.settings), ("pipelines", _jobs.pipelines)]:
        parsed = doctest.DocTestParser().get_doctest(documented.__doc__, {"asap": asap}, name, None, None)
        found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(parsed)
        assert found.failed == 0, name
        tried += found.attempted
    assert tried > 30


def test_the_page_runs(workplace):
    page = (ROOT / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 4
    (workplace / "data").symlink_to(ROOT / "data")
    scope = {}
    for block in blocks:
        # Training needs torch, which the tests do not install.
        if "import trl" not in block and "from trl" not in block:
            exec(compile(block, "docs/python.md", "exec"), scope)
    scope["ray"].shutdown()


def stubs():
    """The stub of the package, with its jobs as they are written, and the stub of the functions, with a line for each."""
    text = inspect.getsource(_jobs)
    kept = {"pipelines", "settings", "sql", "run", "Pruned", "Report", "report", "prune", "Pruner"}
    # The module has the name of one of its functions.
    names = sorted(set(_functions.FUNCTIONS) - {"functions"})
    lines = ["from os import PathLike", "from typing import Any, NamedTuple", "", "from asap import functions as functions, ray as ray", "from asap._asap import Column as Column, Error as Error, Reader as Reader", "from asap._messages import Note as Note"]
    lines += ["from asap.functions import (", *(f"    {name} as {name}," for name in names), ")", "", "__version__: str", ""]
    for node in ast.parse(text).body:
        if getattr(node, "name", None) in kept:
            lines += [ast.unparse(bare(node)), ""]
    functions = ["from typing import Any", ""]
    for name, function in sorted(_functions.FUNCTIONS.items()):
        parameters = inspect.signature(function).parameters.values()
        typed = [f"{each}".replace("=None", "") + ": Any" + (" = None" if each.default is None else "") for each in parameters]
        functions.append(f"def {name}({', '.join(typed)}) -> Any: ...")
    return {"__init__.pyi": "\n".join(lines), "functions.pyi": "\n".join(functions) + "\n"}


def bare(node):
    """A definition without bodies and private names."""
    if isinstance(node, ast.ClassDef):
        public = ("__init__", "__call__", "to")
        body = [of for of in node.body if getattr(of, "name", "") in public or isinstance(of, ast.AnnAssign)]
        node.body = [bare(of) if isinstance(of, ast.FunctionDef) else of for of in body]
        if node.name == "Pruner":
            node.body.insert(0, ast.parse("fingerprint: str").body[0])
    else:
        node.body = [ast.Expr(ast.Constant(...))]
    return node


def test_the_stubs_are_what_the_package_is():
    defined = {"functions", "ray", "Column", "Error", "Note", "Reader", "__version__", *_functions.FUNCTIONS}
    for name, stub in stubs().items():
        if os.environ.get("UPDATE"):
            (SOURCE / name).write_text(stub)
        assert (SOURCE / name).read_text() == stub, "run the tests with UPDATE=1, and read the difference"
        defined |= {getattr(node, "name", None) for node in ast.parse(stub).body}
    assert set(asap.__all__) <= defined


def test_the_stub_of_the_module_has_its_names():
    tree = ast.parse((ROOT / "python/python/asap/_asap.pyi").read_text())
    written = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    public = {name for name in dir(_asap) if not name.startswith("_")}
    assert set(written) == public
    for name, node in written.items():
        if isinstance(node, ast.FunctionDef):
            assert [each.arg for each in node.args.args] == list(inspect.signature(getattr(_asap, name)).parameters), name
