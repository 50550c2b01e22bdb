"""The command, signals, forks and the import."""

import os
import re
import signal
import subprocess
import sys
import time

import asap
import pytest
from conftest import SAMPLE

# A query that does not end in the time of a test.
LONG = (
    "SELECT sum(cot_tokens(concat('2 + 2 is ', a.value, b.value))) AS n "
    "FROM generate_series(1, 1000000) a, generate_series(1, 1000) b"
)


def python(code, **options):
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "asap", *arguments], capture_output=True, text=True)


def test_the_command_has_the_exit_codes_of_the_program():
    assert (command("--version").returncode, command("--version").stdout.split()[0]) == (0, "asap")
    assert (
        command("sql", "-c", "SELECT cot_tokens('2 + 2 is 4') AS n", "--format", "json", "-q").stdout == '[{"n":7}]\n'
    )
    assert command("sql", "-c", "SELECT 1 / 0").returncode == 1
    wrong = command("rn")
    assert wrong.returncode == 2 and "did you mean run?" in wrong.stderr
    assert os.path.exists(os.path.join(os.path.dirname(sys.executable), "asap"))


def test_a_signal_ends_the_command_as_it_ends_the_program():
    process = subprocess.Popen(
        [sys.executable, "-m", "asap", "sql", "-q", "-c", LONG], stderr=subprocess.PIPE, text=True
    )
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 75 and "interrupted" in process.stderr.read()


@pytest.mark.parametrize("read", ["to_pylist()", "__class__"])
def test_an_interrupt_ends_a_query(read):
    if read == "__class__":
        work = f"import pyarrow; pyarrow.table(asap.sql({LONG!r}))"
    else:
        work = f"asap.sql({LONG!r}).to_pylist()"
    process = python(f"import asap\nprint('begins', flush=True)\n{work}")
    process.stdout.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    # pyarrow raises an error of its own if the signal arrives while it reads the stream. Python 3.10 then prints
    # nothing.
    assert process.wait(20) != 0 and ("interrupt" in process.stderr.read().lower() or sys.version_info < (3, 11))


def test_an_interrupt_ends_a_function():
    process = python(
        "import asap\nprint('begins', flush=True)\nasap.tokens(['2 + 2 is %d' % i * 9 for i in range(2000000)])"
    )
    process.stdout.readline()
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0 and "KeyboardInterrupt" in process.stderr.read()


def test_an_interrupt_ends_a_run_and_the_next_resumes(workplace):
    work = f"asap.run('asap', {str(SAMPLE)!r}, 'out', slice_rows=20, refine_max_tokens=64, commit_every='100ms')"
    process = python(f"import asap\nprint('begins', flush=True)\n{work}")
    while not (workplace / "out/_delta_log/00000000000000000001.json").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = r"KeyboardInterrupt: interrupted: \d+ slices were committed, \d+ remain; repeat the call to resume"
    assert process.wait(60) != 0 and re.search(said, process.stderr.read())
    again = asap.run("asap", from_=str(SAMPLE), to="out", slice_rows=20, refine_max_tokens=64, limit=400, quiet=True)
    rows = asap.sql("SELECT count(*) AS n, count(DISTINCT source) AS different FROM 'out'").to_pylist()[0]
    assert rows["n"] == rows["different"] > 300 and again["slices_left"] == 0


def test_a_forked_process_has_an_engine_of_its_own():
    # Models and their threads are open when the process forks.
    question, steps = ["2 + 2?"] * 50, [["Hm.", "2 + 2 is 4."]] * 50
    expected = asap.surprisal(question, steps), asap.steps("a\n\nb"), asap.tokens(["a b c"] * 9000)
    for _ in range(20):
        child = os.fork()
        if child == 0:
            found = None
            try:
                signal.alarm(60)
                found = asap.surprisal(question, steps), asap.steps("a\n\nb"), asap.tokens(["a b c"] * 9000)
            finally:
                os._exit(0 if found == expected else 1)
        assert os.waitpid(child, 0)[1] == 0
        # The parent opens its engine again.
        assert asap.surprisal(question, steps) == expected[0]


def test_the_import_opens_no_engine_and_is_quick():
    # Seconds of the CPU: the machine may do other work.
    code = "import time; begun = time.process_time(); import asap; print(time.process_time() - begun)"
    python(code).wait()
    seconds = min(float(python(code).communicate()[0]) for _ in range(5))
    assert seconds < 0.1
    threads = "import asap, os; print(len(os.listdir('/proc/self/task')))"
    if sys.platform == "linux":
        assert python(threads).communicate()[0].strip() == "1"
