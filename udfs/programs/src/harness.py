"""Runs one program with its tests inside the sandbox.

The request comes as JSON on stdin. Reports go to stdout, one line each, which begins with the request's nonce: what the
program prints is discarded. Names that a report needs are bound before the program can replace them.
"""

import ast
import atexit
import base64
import copy
import json
import marshal
import math
import os
import reprlib
import sys
import types
from decimal import Decimal

TESTS = "<tests>"
SHORT = 200


class Wrong(Exception):
    """A test failed; the message is what the verdict reports."""


class Exits(Exception):
    """The program on standard input left with a code that means failure."""


def main(write=os.write, leave=os._exit):
    os.closerange(3, 1 << 16)
    request = json.load(sys.stdin.buffer)
    nonce, reports = request["nonce"], os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.environ.clear()
    sys.path[:] = [folder for folder in sys.path if folder]

    def report(kind, detail=""):
        line = f"\n{nonce} {kind} {detail}\n".encode("utf-8", "backslashreplace")
        while line:
            line = line[write(reports, line) :]

    # For the report of a program that has used up its memory.
    reserve = bytearray(1 << 21)
    try:
        answer = FORMS[request["kind"]](request, report)
    except BaseException as error:
        del reserve
        answer = failure(error, request)
    report(*answer)
    leave(0)


def failure(error, request):
    """Returns the reason and the detail of what ended a program."""
    if isinstance(error, Wrong):
        return "wrong_answer", line(str(error))
    if isinstance(error, Exits):
        return "runtime_error", line(str(error))
    if isinstance(error, MemoryError):
        return "memory", "MemoryError"
    if isinstance(error, SystemExit):
        return "early_exit", "SystemExit before the tests ended"
    place = error.__traceback__
    while place.tb_next:
        place = place.tb_next
    if isinstance(error, AssertionError) and place.tb_frame.f_code.co_filename == TESTS:
        return "wrong_answer", line(request["test"].splitlines()[place.tb_lineno - 1])
    try:
        return "runtime_error", line(f"{type(error).__name__}: {error}")
    except BaseException:
        return "runtime_error", "an exception that has no text"


def line(text):
    text = " ".join(text.split())
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def short(value):
    try:
        return reprlib.repr(value)
    except BaseException:
        return f"a {type(value).__name__}"


def program(request, report, name="program"):
    """Runs the program as a module. Returns its names."""
    names = begin(request, name)
    code = compiled(request)
    report("started")
    exec(code, names)
    return names


def begin(request, name):
    module = types.ModuleType(name)
    # Where dataclasses look their module up.
    sys.modules[name] = sys.modules["__main__"] = module
    exec(compile(request["before"], "<before>", "exec"), module.__dict__)
    return module.__dict__


class Unparsed(BaseException):
    """The program is not valid Python."""


def compiled(request):
    try:
        return compile(request["program"], "<program>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unparsed(f"{type(error).__name__}: {error}") from None


def with_syntax(form):
    def run(request, report):
        try:
            return form(request, report)
        except Unparsed as error:
            return "syntax_error", line(str(error))

    return run


def named(names, entry_point):
    if entry_point not in names:
        raise NameError(f"name '{entry_point}' is not defined")
    return names[entry_point]


@with_syntax
def check(request, report):
    """HumanEval and LeetCode: a function `check` of the tests takes the entry point."""
    names = program(request, report)
    exec(compile(request["test"], TESTS, "exec", dont_inherit=True), names)
    names["check"](eval(request["entry_point"], names))
    return "ok", ""


@with_syntax
def calls(request, report):
    """HumanEval+: each call returns what the reference program returned. Without such values, it is the one that runs."""
    row = json.loads(request["row"])
    inputs, tolerance = row["base_input"] + row["plus_input"], row["atol"]
    function = named(program(request, report), request["entry_point"])
    if request["expected"] is None:
        values = [function(*copy.deepcopy(call)) for call in inputs]
        return "outputs", base64.b64encode(marshal.dumps(values)).decode()
    expected = marshal.loads(base64.b64decode(request["expected"]))
    for place, (call, value) in enumerate(zip(inputs, expected)):
        found = function(*copy.deepcopy(call))
        if request["entry_point"] == "find_zero":
            right = abs(sum(c * math.pow(found, i) for i, c in enumerate(call[0]))) <= tolerance
        else:
            # As evalplus: from the first float on, all of the problem's values are compared with a tolerance.
            if tolerance == 0 and is_floats(value):
                tolerance = 1e-6
            right = found == value or (tolerance != 0 and type(found) is type(value) and close(found, value, tolerance))
        if not right:
            raise Wrong(f"call {place + 1} of {len(inputs)}: expected {short(value)}, found {short(found)}")
    return "ok", ""


def is_floats(value):
    if isinstance(value, (list, tuple)) and value:
        return all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def close(found, expected, tolerance):
    """numpy.allclose with its relative tolerance of 1e-7, for numbers and lists of them."""
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(close(*pair, tolerance) for pair in zip(found, expected))
    if not isinstance(found, (int, float)) or not isinstance(expected, (int, float)):
        return False
    return found == expected or abs(found - expected) <= tolerance + 1e-7 * abs(expected) < math.inf


@with_syntax
def method(request, report):
    """LiveCodeBench: arguments and result are lines of JSON."""
    larger_limits()
    names = program(request, report)
    owner = names["Solution"]() if "class Solution" in request["program"] else types.SimpleNamespace(**names)
    function = getattr(owner, request["entry_point"])
    for place, test in enumerate(request["tests"]):
        arguments = [json.loads(text) for text in test["input"].split("\n")]
        expected = json.loads(test["output"])
        report("test")
        found = function(*arguments)
        # Tuples count as lists.
        if (list(found) if isinstance(found, tuple) else found) != expected:
            raise Wrong(f"test {place + 1}: expected {short(expected)}, found {short(found)}")
    return "ok", ""


@with_syntax
def stdin(request, report):
    """LiveCodeBench: the program reads standard input and prints."""
    larger_limits()
    code = compiled(request)
    report("started")
    for place, test in enumerate(request["tests"]):
        found = printed(code, request, test["input"], report)
        if not same_lines(found, test["output"]):
            raise Wrong(f"test {place + 1}: expected {short(test['output'])}, found {short(found)}")
    return "ok", ""


def printed(code, request, text, report):
    """Returns what the program prints. Files take the places of its streams, so that every way to read and write works."""
    source, target = unnamed_file(text.encode()), unnamed_file(b"")
    os.dup2(source, 0)
    os.dup2(target, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = own = open(1, "w", encoding="utf-8", closefd=False)
    names = begin(request, "__main__")
    report("test")
    try:
        exec(code, names)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise Exits(f"SystemExit: {short(error.code)}") from None
    # Fast writers flush here.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, own):
        if not stream.closed:
            stream.flush()
    found = os.pread(target, os.fstat(target).st_size, 0).decode("utf-8", "replace")
    os.close(source)
    os.close(target)
    return found


def unnamed_file(content):
    file = os.open(".stream", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.unlink(".stream")
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def same_lines(found, expected):
    """As LiveCodeBench: line by line without outer white space, as texts or as decimals."""
    found, expected = ([line.strip() for line in text.strip().split("\n")] for text in (found, expected))
    return len(found) == len(expected) and all(map(same_line, found, expected))


def same_line(found, expected):
    if found == expected:
        return True
    try:
        found, expected = ([Decimal(word) for word in line.split()] for line in (found, expected))
        return found == expected
    except ArithmeticError:
        return False


def larger_limits():
    """The limits of LiveCodeBench's runner."""
    sys.setrecursionlimit(50_000)
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(50_000)


def modules(request, report):
    """Names the modules that sources import and that are missing."""
    report("started")
    wanted = set()
    for source in request["sources"]:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                wanted.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                wanted.add(node.module.partition(".")[0])
    missing = []
    for name in sorted(wanted):
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return "missing", " ".join(missing)


def probe(request, report):
    """Tries what the sandbox has to refuse. Names what works nevertheless."""
    report("started")
    import socket

    def fork():
        if os.fork() == 0:
            os._exit(0)

    attempts = {
        "a network connection": lambda: socket.socket(),
        "a new process": fork,
        "writing outside of its folder": lambda: open(request["outside"], "w"),
        "reading outside of its folder": lambda: os.listdir(os.path.dirname(request["outside"])),
    }
    works = []
    for name, attempt in attempts.items():
        try:
            attempt()
            works.append(name)
        except PermissionError:
            pass
    with open("file", "w") as file:
        file.write("what a program may do")
    return "works", ", ".join(works)


FORMS = {form.__name__: form for form in (modules, probe)}
FORMS.update(check=check, calls=calls, method=method, stdin=stdin)

main()
