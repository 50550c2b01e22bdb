"""The functions, from the declarations of the SQL functions."""

import sys

from asap import _asap, _data, _examples, _settings

_TEMPLATE = '''
def {name}({parameters}**settings):
    return _call({sql!r}, [{arguments}], {required}, settings)
'''


def _call(name, arguments, required, settings):
    while len(arguments) > required and arguments[-1] is None:
        arguments.pop()
    columns = [_readable(argument) for argument in arguments]
    return _as_given(_asap.call(name, columns, _settings.pairs(settings)), arguments)


def _readable(argument):
    """A list, Arrow data or a constant."""
    library = _data.library(argument)
    if library == "pandas" and _data.is_arrow(argument) and hasattr(argument, "dtype"):
        return _data.column(argument.name, argument)
    if library == "polars" and hasattr(argument, "dtype"):
        _data.check_polars(argument.name, argument.dtype)
    if _data.is_arrow(argument) or isinstance(argument, (list, tuple, str, dict)):
        return argument
    if library == "datasets":
        return list(argument)
    # Arrays of NumPy and older pandas have no Arrow form.
    return argument.tolist() if hasattr(argument, "tolist") else argument


def _as_given(found, arguments):
    """A column in the library of the first argument that is one."""
    if not isinstance(found, _asap.Column):
        return found
    column = next(argument for argument in arguments if _data.is_arrow(argument))
    library = _data.library(column)
    if library == "polars":
        return sys.modules["polars"].Series(found)
    if library == "pyarrow":
        return sys.modules["pyarrow"].chunked_array(found)
    if library == "pandas":
        import pyarrow

        return pyarrow.chunked_array(found).to_pandas().set_axis(column.index)
    return found


def _documented(about, arguments, example, is_text):
    lines = [about, ""]
    if arguments:
        lines.append("Args:")
        lines += [f"    {name}: {text}" for name, text, _ in arguments]
        lines.append("    settings: Settings by name, such as scorer_model.")
    call = _examples.translated(example)
    if call is None:
        lines += ["", "In SQL:", f"    {example.replace(chr(10), chr(10) + '    ')}"]
    elif call[1]:
        # Python shows no None.
        lines += ["", f">>> print({call[0]})" if call[1] == "NULL" else f">>> {call[0]}"]
        lines.append(repr(_examples.result(call[1], is_text)))
    else:
        lines += ["", f">>> {call[0]}  # doctest: +SKIP"]
    return "\n".join(lines)


def _define():
    declared = {sql.removeprefix("cot_"): (sql, *rest) for sql, *rest in _asap.functions()}
    source = [_source(name, sql, arguments) for name, (sql, _, _, arguments, _) in declared.items()]
    scope = {"_call": _call, "__name__": "asap"}
    exec("".join(source), scope)
    for name, (_, about, example, arguments, is_text) in declared.items():
        scope[name].__doc__ = _documented(about, arguments, example, is_text)
    return {name: scope[name] for name in declared}


def _source(name, sql, arguments):
    parameters = "".join(f"{of}=None, " if is_optional else f"{of}, " for of, _, is_optional in arguments)
    required = sum(not is_optional for _, _, is_optional in arguments)
    names = ", ".join(of for of, _, _ in arguments)
    return _TEMPLATE.format(name=name, parameters=parameters, sql=sql, arguments=names, required=required)


FUNCTIONS = _define()
