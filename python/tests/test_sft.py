"""The trainer checks its options before it reads anything. Its other tests need torch: see tests/readers/sft.py."""

import subprocess
import sys

import pytest

OPTIONS = ["--model", "nowhere", "--data", "nowhere", "--out", "model"]
POSITIVE = ["--epochs", "--max-length", "--step", "--pass-tokens", "--checkpoint-every", "--lora"]
WRONG = [
    *((name, value, "expected a whole number from 1") for name in POSITIVE for value in ("0", "-4", "nan", "1.5", "x")),
    *((name, value, "expected a whole number from 0") for name in ("--seed", "--warmup-steps") for value in ("-1", "inf", "0.5")),
    *((name, value, "expected a number above 0") for name in ("--learning-rate", "--clip") for value in ("0", "-1", "nan", "inf")),
    *((name, value, "expected a number from 0 to 1") for name in ("--warmup", "--min-rate") for value in ("3", "-0.1", "nan")),
    *(("--weight-decay", value, "expected a number from 0") for value in ("-1", "nan", "inf")),
]


def options(*given):
    done = subprocess.run([sys.executable, "-m", "asap.sft", *given], capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def read():
    """Reads options as the command does, in this process: a process for each would take long."""
    from asap import sft

    def read(monkeypatch, capsys, *given):
        monkeypatch.setattr(sys, "argv", ["asap.sft", *OPTIONS, *given])
        with pytest.raises(SystemExit) as ended:
            sft.arguments()
        return ended.value.code, capsys.readouterr().err

    return read


@pytest.mark.parametrize(("name", "value", "expected"), WRONG)
def test_a_number_is_checked(read, monkeypatch, capsys, name, value, expected):
    code, text = read(monkeypatch, capsys, name, value)
    assert code == 2 and text == f"error: {name}: {expected}, found {value}\n"


def test_an_option_that_does_not_exist_is_one_sentence(read, monkeypatch, capsys):
    assert read(monkeypatch, capsys, "--lerning-rate", "1")[1] == "error: there is no option --lerning-rate (did you mean --learning-rate?)\n"
    assert read(monkeypatch, capsys, "--zzz=1")[1] == "error: there is no option --zzz\n"
    lacks = "error: there is no option --held-out: only asap train has it\n"
    assert read(monkeypatch, capsys, "--held-out", "0.1")[1] == read(monkeypatch, capsys, "--held-out=0.1")[1] == lacks
    assert options(*OPTIONS, "--lora", "0") == (2, "error: --lora: expected a whole number from 1, found 0\n")
    assert options("--model", "x")[0] == 2
