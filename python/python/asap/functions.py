"""The functions of asap, each of which is also an attribute of `asap`.

>>> from asap import functions
>>> functions.steps("2 + 2?\\n\\nIt is 4.")
['2 + 2?', 'It is 4.']
"""

import sys
import types

from asap import _functions

globals().update(_functions.FUNCTIONS)
__all__ = list(_functions.FUNCTIONS)


class _Module(types.ModuleType):
    """The SQL function cot_functions has the name of this module."""

    def __call__(self, *arguments, **settings):
        return _functions.FUNCTIONS["functions"](*arguments, **settings)

    def __dir__(self):
        return [*__all__, "__all__", "__doc__", "__file__", "__name__"]


sys.modules[__name__].__class__ = _Module
