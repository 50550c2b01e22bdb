"""Runs one program with its inputs inside the sandbox, and writes what it returns.

The request comes as JSON on stdin. Reports go to a descriptor of their own: a line with a kind and a length, then a text
of this length. Results are tagged text, which `value.rs` describes. A process that runs a program gets no expected
value, no test and no reference program: asap compares the results. `modules`, `probe`, `apart`, `inputs`, `outputs` and
`judged` run no program.
"""

import ast
import atexit
import contextlib
import fcntl
import gc
import io
import json
import os
import struct
import sys
import types

SHORT = 200
DEEPEST = 200
# The first number of the harness's own descriptors: low numbers are for the program.
OWN = 32
# Files in the order in which they are flushed; the last one has no buffer.
FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.FileIO)
# What links the nodes of a list and of a tree, last first.
LINKS = (("next",), ("right", "left"))


class Wrong(Exception):
    """A result that has no tagged text; the message says what was found."""


class Exits(Exception):
    """The program on standard input left with a code that means failure."""


class Unparsed(BaseException):
    """The program is not valid Python."""


def main(write=os.write, leave=os._exit):
    request = json.load(sys.stdin.buffer)
    inherited, *streams = sys.argv[1:]
    # The list was made before the streams, which may have got its numbers.
    for fd in set(filter(None, inherited.split(","))) - set(streams):
        with contextlib.suppress(OSError):
            os.close(int(fd))
    # The reports, and the files that take the places of standard input and output.
    null = os.open(os.devnull, os.O_RDWR)
    reports, *request["files"] = (fcntl.fcntl(fd, fcntl.F_DUPFD, OWN) for fd in (1, *map(int, streams), null))
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.closerange(3, OWN)
    sys.argv[1:] = []
    os.environ.clear()
    # Numeric libraries start a thread for each core, which compute in vain if others need the cores too.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    sys.path[:] = [folder for folder in sys.path if folder]

    def report(kind, text=""):
        text = text.encode("utf-8", "backslashreplace")
        rest = memoryview(b"%s %d\n" % (kind.encode(), len(text)) + text)
        while rest:
            rest = rest[write(reports, rest) :]

    # For the report of a program that has used up its memory.
    reserve = bytearray(1 << 21)
    try:
        FORMS[request["kind"]](request, report)
    except BaseException as error:
        del reserve
        report(*failure(error))
    leave(0)


def failure(error):
    """Returns the reason and the detail of what ended a program."""
    if isinstance(error, Wrong):
        return "wrong_answer", line(str(error))
    if isinstance(error, Unparsed):
        return "syntax_error", line(str(error))
    if isinstance(error, Exits):
        return "runtime_error", line(str(error))
    if isinstance(error, MemoryError):
        return "memory", "MemoryError"
    if isinstance(error, SystemExit):
        return "early_exit", "SystemExit before the tests ended"
    try:
        return "runtime_error", line(f"{type(error).__name__}: {error}")
    except BaseException:
        return "runtime_error", "an exception that has no text"


def line(text):
    text = " ".join(text.split())
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def tagged(value):
    parts = []
    write(value, parts.append, 0)
    return "".join(parts)


def write(value, put, depth):
    """Writes a value. Subclasses count as their plain type, by which each value is read: no method of a program runs."""
    kind = type(value)
    if kind in SCALARS:
        put(SCALARS[kind](value))
        return
    kind = next((plain for plain in PLAIN if issubclass(kind, plain)), None)
    if depth > DEEPEST:
        raise Wrong("a value that is nested too deeply")
    if kind is None:
        write_nodes(value, put, depth)
    elif kind in SCALARS:
        put(SCALARS[kind](PLAIN[kind](value)))
    else:
        is_dict = kind is dict
        items = [item for pair in dict.items(value) for item in pair] if is_dict else list(kind.__iter__(value))
        put(f"{PLAIN[kind]}{len(items) // (1 + is_dict)}:")
        try:
            # Most large results are lists of numbers.
            put("".join([SCALARS[type(item)](item) for item in items]))
        except KeyError:
            for item in items:
                write(item, put, depth + 1)


def float_text(value):
    return "f" + (struct.pack(">d", value).hex() if value == value else "7ff8000000000000")


def text_text(value):
    try:
        if "\n" not in value:
            return f"s{len(value.encode())}:{value}"
    except UnicodeEncodeError:
        # Half of a pair of surrogates.
        pass
    value = value.encode("unicode_escape").decode()
    return f"u{len(value)}:{value}"


SCALARS = {
    type(None): lambda value: "N",
    bool: lambda value: "T" if value else "F",
    int: "i{:x};".format,
    float: float_text,
    str: text_text,
}
# How a subclass becomes the plain type, or the tag of the plain type.
PLAIN = {
    int: lambda value: int.__add__(value, 0),
    float: float.__pos__,
    str: str.__str__,
    list: "l",
    tuple: "t",
    dict: "d",
    set: "e",
    frozenset: "z",
}


def write_nodes(value, put, depth):
    """A linked list or a binary tree of LeetCode, without recursion. Anything else is wrong."""
    links = next((links for links in LINKS if has(value, ("val", *links))), ())
    items, rest, seen = [], [value], set()
    while rest:
        node = rest.pop()
        items.append(node)
        if node is None:
            continue
        if not links or not has(node, ("val", *links)):
            raise Wrong(f"a value of type {name_of(node)}")
        if id(node) in seen:
            raise Wrong(f"a {name_of(node)} that contains itself")
        seen.add(id(node))
        rest += [attribute(node, link) for link in links]
    put(f"{'n' if len(links) == 1 else 'b'}{len(items)}:")
    for node in items:
        if node is None:
            put("-")
        else:
            write(attribute(node, "val"), put, depth + 1)


attribute = object.__getattribute__


def has(value, names):
    try:
        return [attribute(value, name) for name in names] != []
    except AttributeError:
        return False


def name_of(value):
    return type.__dict__["__name__"].__get__(type(value))


def begin(request, name):
    module = types.ModuleType(name)
    # Where dataclasses look their module up.
    sys.modules[name] = sys.modules["__main__"] = module
    exec(compile(request["before"], "<before>", "exec"), module.__dict__)
    return module.__dict__


def compiled(request):
    try:
        return compile(request["program"], "<program>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unparsed(f"{type(error).__name__}: {error}") from None


def program(request, report):
    """Runs the program as a module. Returns its names."""
    names = begin(request, "program")
    # Compiling may take long or end the process: that is the program's own failure.
    report("begin")
    exec(compiled(request), names)
    return names


def check(request, report):
    """HumanEval and LeetCode: the inputs are the calls as the tests write them."""
    names = program(request, report)
    candidate = eval(request["entry_point"], names)
    for call in request["inputs"]:
        value = eval(compile(call, "<call>", "eval", dont_inherit=True), names, {"candidate": candidate})
        report("value", tagged(value))


def calls(request, report):
    """HumanEval+: the inputs are JSON lists of arguments."""
    names = program(request, report)
    if request["entry_point"] not in names:
        raise NameError(f"name '{request['entry_point']}' is not defined")
    function = names[request["entry_point"]]
    for call in request["inputs"]:
        report("value", tagged(function(*json.loads(call))))


def method(request, report):
    """LiveCodeBench: the inputs are lines of JSON."""
    larger_limits()
    names = program(request, report)
    owner = names["Solution"]() if "class Solution" in request["program"] else types.SimpleNamespace(**names)
    function = getattr(owner, request["entry_point"])
    for text in request["inputs"]:
        arguments = [json.loads(line) for line in text.split("\n")]
        report("begin")
        report("value", tagged(function(*arguments)))


def stdin(request, report):
    """LiveCodeBench: the program reads standard input and prints."""
    larger_limits()
    begin(request, "__main__")
    report("begin")
    code = compiled(request)
    # What is loaded by now is no garbage of a program, so that looking for garbage after each test is fast.
    gc.freeze()
    for text in request["inputs"]:
        report("value", printed(code, request, text, report))


def printed(code, request, text, report):
    """Returns what the program prints. Files take the places of its streams, so that every way to read and write works.
    Each test gets descriptors and streams of its own, whatever the test before did with those that it had."""
    source, target, null = request["files"]
    for file, content in ((source, text.encode()), (target, b"")):
        os.ftruncate(file, 0)
        place = 0
        while place < len(content):
            place += os.pwrite(file, content[place:], place)
        os.lseek(file, 0, os.SEEK_SET)
    for number, (file, name, mode) in enumerate(((source, "stdin", "r"), (target, "stdout", "w"), (null, "stderr", "w"))):
        os.dup2(file, number)
        stream = open(number, mode, encoding="utf-8", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    names = begin(request, "__main__")
    report("begin")
    try:
        exec(code, names)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise Exits(f"SystemExit: {str(error.code)}") from None
    del names
    end()
    return os.pread(target, os.fstat(target).st_size, 0).decode("utf-8", "replace")


def end():
    """What Python does when a program ends: waits for threads, calls exit functions, deletes objects, flushes files."""
    wait_for_threads()
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    if "weakref" in sys.modules:
        # The exit functions are gone, so the next test registers its own.
        finalize = sys.modules["weakref"].finalize
        finalize._registered_with_atexit = finalize._shutdown = False
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    if "fileinput" in sys.modules:
        sys.modules["fileinput"].close()
    flush_files()
    # Deleted objects may write, too.
    sys.modules["__main__"] = types.ModuleType("__main__")
    gc.collect()
    # Closed later, a file would close a descriptor of the next test.
    for file in flush_files():
        with contextlib.suppress(Exception):
            if file.closefd and file.fileno() < 3:
                io.FileIO.close(file)


def flush_files():
    """Flushes all open files: texts before the bytes below them. Returns them."""
    objects = gc.get_objects()
    kinds = {id(kind): kind for kind in map(type, objects)}
    kinds = {number for number, kind in kinds.items() if issubclass(kind, FILES)}
    files = [file for file in objects if id(type(file)) in kinds]
    for kind in FILES[:-1]:
        for file in files:
            with contextlib.suppress(Exception):
                kind.flush(file)
    return files


def wait_for_threads():
    pool, threading = sys.modules.get("concurrent.futures.thread"), sys.modules.get("threading")
    if pool:
        # Its threads wait for more work until Python ends.
        pool._python_exit()
        pool._shutdown = False
    for thread in threading.enumerate() if threading else ():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()


def larger_limits():
    """The limits of LiveCodeBench's runner."""
    sys.setrecursionlimit(50_000)
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(50_000)


def modules(request, report):
    """Names the modules that sources import and that are missing."""
    report("begin")
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
    report("value", " ".join(missing))


def probe(request, report):
    """Tries what the sandbox has to refuse. Names what works nevertheless."""
    report("begin")
    import socket

    def fork():
        if os.fork() == 0:
            os._exit(0)

    attempts = {
        "a network connection": lambda: socket.socket(),
        "a new process": fork,
        "writing a file": lambda: open(request["outside"], "w"),
        "reading a folder": lambda: os.listdir(os.path.dirname(request["outside"])),
    }
    for path in request["private"]:
        attempts[f"reading {path}"] = lambda path=path: os.listdir(path) if os.path.isdir(path) else open(path)
    works = []
    for name, attempt in attempts.items():
        try:
            attempt()
            works.append(name)
        except (PermissionError, FileNotFoundError):
            pass
    report("value", ", ".join(works))


class Asserts:
    """The function `check` of a test, taken apart."""

    def __init__(self, request):
        self.names, self.lines = begin(request, "tests"), io.StringIO(request["test"], None).readlines()
        self.known, self.body = set(self.names), ast.parse(request["test"]).body
        self.check = next((node for node in self.body[::-1] if getattr(node, "name", None) == "check"), None)
        if not isinstance(self.check, ast.FunctionDef) or len(self.check.args.args) != 1:
            raise ValueError("expected a function check with one argument")
        self.candidate = self.check.args.args[0].arg

    def __iter__(self):
        """Yields asserts, each with its calls. What stands between them has run by then."""
        for node in [node for node in self.body if node is not self.check] + self.check.body:
            calls = self.calls(node.test) if isinstance(node, ast.Assert) else []
            if self.uses(node) != sum(map(self.uses, calls)):
                raise ValueError(f"expected only asserts that call {self.candidate}, found: {self.line(node)}")
            if calls:
                yield node, calls
            else:
                self.run(ast.Module([node], []), "exec")

    def calls(self, node):
        """The calls of the candidate, without those inside of another one."""
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == self.candidate:
            return [node]
        return [call for part in ast.iter_child_nodes(node) for call in self.calls(part)]

    def uses(self, node):
        return sum(getattr(part, "id", None) == self.candidate for part in ast.walk(node))

    def run(self, node, mode="eval"):
        code = compile(ast.fix_missing_locations(node), "<tests>", mode, dont_inherit=True)
        return eval(code, self.names)

    def line(self, node):
        return line(self.lines[node.lineno - 1])

    def source(self, call):
        """The call, in which names that only the test has are replaced by their values."""
        own = {name: self.names[name] for name in self.names.keys() - self.known}
        for part in ast.walk(call):
            if isinstance(part, ast.Name) and part.id in own:
                part.id = f"({own[part.id]!r})"
            elif isinstance(part, ast.Name) and part.id == self.candidate:
                part.id = "candidate"
        return ast.unparse(call)

    def value(self, node, call):
        """What the call has to return, or None if the assert does not compare it with a value."""
        test, sides = node.test, []
        if isinstance(test, ast.Compare) and [type(way) for way in test.ops] == [ast.Eq]:
            sides = [test.left, *test.comparators]
        elif isinstance(test, ast.Call) and getattr(test.func, "id", None) in ("is_same_list", "is_same_tree"):
            sides = test.args
        others = [side for side in sides if not self.uses(side)]
        if len(sides) != 2 or len(others) != 1 or call not in sides:
            return None
        try:
            return tagged(self.run(ast.Expression(others[0])))
        except Wrong:
            return None


def apart(request, report):
    """Takes a test apart, without any program: calls, what each has to return, the lines of their asserts."""
    report("begin")
    tests, parts = Asserts(request), {"calls": [], "expected": [], "lines": []}
    for node, calls in tests:
        for call in calls:
            parts["expected"].append(tests.value(node, call))
            parts["calls"].append(tests.source(call))
            parts["lines"].append(tests.line(node))
    report("value", json.dumps(parts))


def judged(request, report):
    """Runs the asserts that do not compare with a value, over what a program has returned. Reports the one that fails."""
    report("begin")
    tests, values = Asserts(request), iter(request["values"])
    for node, calls in tests:
        if tests.value(node, calls[0]) is not None:
            continue
        for call in calls:
            # In place, for any expression: the call of a function that returns the value.
            call.func, call.args, call.keywords = ast.parse(f"(lambda: {next(values)})", mode="eval").body, [], []
        try:
            tests.run(ast.Module([node], []), "exec")
        except Exception:
            return report("value", tests.line(node))
    report("value")


def inputs(request, report):
    """The calls of a row of HumanEval+."""
    report("begin")
    row = json.loads(request["row"])
    report("value", json.dumps({"calls": [json.dumps(call) for call in row["base_input"] + row["plus_input"]]}))


def outputs(request, report):
    """What the tests of LiveCodeBench expect of a function: JSON."""
    report("begin")
    larger_limits()
    report("value", json.dumps({"expected": [tagged(json.loads(text)) for text in request["outputs"]]}))


FORMS = {form.__name__: form for form in (check, calls, method, stdin, modules, probe, apart, inputs, outputs, judged)}

main()
