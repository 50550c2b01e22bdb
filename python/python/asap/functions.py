"""The functions of asap, each of which is also an attribute of `asap`.

>>> from asap import functions
>>> functions.steps("2 + 2?\\n\\nIt is 4.")
['2 + 2?', 'It is 4.']
"""

# functions.pyi has the names.
# pyright: reportUnsupportedDunderAll=false

import sys
import types
from typing import Any

from asap import _functions

globals().update(_functions.FUNCTIONS)
# The function cot_functions is this module, which can be called.
__all__ = [name for name in _functions.FUNCTIONS if name != "functions"]


class _Module(types.ModuleType):
    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return _functions.FUNCTIONS["functions"](*arguments, **settings)

    def __dir__(self) -> list[str]:
        return [*_functions.FUNCTIONS, "__all__", "__doc__", "__file__", "__name__"]


sys.modules[__name__].__class__ = _Module
