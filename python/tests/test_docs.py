"""The page, the docstrings and the stubs are what the module is."""

import ast
import doctest
import inspect
import os
import re

import asap
import stubs
from asap import _asap, _functions
from conftest import ROOT

SOURCE = ROOT / "python/python/asap"


def test_the_examples_of_docstrings_run():
    tried = 0
    jobs = [("asap", asap), ("functions", asap.functions)]
    jobs += [(each.__name__, each) for each in (asap.sql, asap.settings, asap.pipelines)]
    for name, documented in [*jobs, *_functions.FUNCTIONS.items()]:
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


def test_the_stub_of_the_functions_is_what_they_are():
    path = SOURCE / "functions.pyi"
    if os.environ.get("UPDATE"):
        path.write_text(stubs.functions())
    assert path.read_text() == stubs.functions(), "run the tests with UPDATE=1, and read the difference"
    defined = {getattr(node, "name", None) for node in ast.parse(path.read_text()).body}
    assert set(_functions.FUNCTIONS) <= defined


def test_the_stub_of_the_package_has_its_names():
    names = set()
    for node in ast.parse((SOURCE / "__init__.pyi").read_text()).body:
        names |= {each.name for each in getattr(node, "names", [])} | {
            getattr(getattr(node, "target", None), "id", "*")
        }
    assert names - {"*"} == set(asap.__all__)
    assert not {"match", "random", "select"} & set(asap.__all__) and set(_functions.FUNCTIONS) <= set(vars(asap))


def test_the_stub_of_the_module_has_its_names():
    tree = ast.parse((ROOT / "python/python/asap/_asap.pyi").read_text())
    written = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    public = {name for name in dir(_asap) if not name.startswith("_")}
    assert set(written) == public
    for name, node in written.items():
        if isinstance(node, ast.FunctionDef):
            assert [each.arg for each in node.args.args] == list(inspect.signature(getattr(_asap, name)).parameters), (
                name
            )
