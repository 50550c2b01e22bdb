"""Compares the scores of a server with those of asap's own engine, and prints the CPU time that asap itself takes.

    python3 benches/peers/served.py --url http://127.0.0.1:8000/v1 --model FOLDER --from TRACES

The server must have the model of the folder, in f32, and a window of at least 2,048 tokens. The script needs asap in the
PATH (or --asap) and nothing else. Chains are cut to --tokens, so that a server on a CPU takes minutes.
"""

import argparse
import http.server
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

TOLERANCE = 1e-4


class Echo(http.server.BaseHTTPRequestHandler):
    """A server that knows no prompt_logprobs, before one that does: asap then asks for an echo."""

    protocol_version = "HTTP/1.1"
    url, log_message = "", lambda *_: None

    def forward(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if b'"prompt_logprobs"' in body:
            return self.reply(400, b'{"error": {"message": "prompt_logprobs is unknown"}}')
        ask = urllib.request.Request(self.url + self.path, body or None, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(ask, timeout=600) as response:
                self.reply(response.status, response.read())
        except urllib.error.HTTPError as error:
            self.reply(error.code, error.read())

    do_GET = do_POST = forward

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def cpu():
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


class Asap:
    def __init__(self, given):
        self.given = given

    def sql(self, query, rows, url=None):
        """Returns the rows of a query, its seconds, and the CPU seconds of asap."""
        backend = ["asap.scorer.backend=served", f"asap.scorer.base_url={url}"] if url else ["asap.scorer.backend=cpu"]
        settings = [f"asap.scorer.model={self.given.model}", *backend]
        flags = [part for setting in settings for part in ("--set", setting)]
        begun, used = time.time(), cpu()
        command = [self.given.asap, "sql", "-q", "--format", "json", "--from", rows, *flags, "-c", query]
        out = subprocess.run(command, text=True, capture_output=True)
        out.returncode and sys.exit(f"{query}\n{out.stderr}")
        found = json.loads(out.stdout)
        for row in found:
            # Perplexities in nats.
            row["p"] = [value and math.log(value) for value in row.get("p") or []]
        return found, time.time() - begun, cpu() - used

    def compare(self, name, query, rows, urls):
        ours, seconds, used = self.sql(query, rows)
        tokens = sum(row.get("tokens") or 0 for row in ours)
        print(f"{name}: {len(ours)} rows, {tokens} tokens; cpu: {seconds:.1f} s, {used:.1f} CPU s", flush=True)
        for form, url in urls.items():
            theirs, seconds, used = self.sql(query, rows, url)
            worst = max(apart(our, their) for our, their in zip(ours, theirs, strict=True))
            print(f"  {form}: {worst:.1e} apart; {seconds:.1f} s, asap itself {used:.2f} CPU s", flush=True)
            worst <= TOLERANCE or sys.exit(f"expected at most {TOLERANCE} apart")


def apart(our, their):
    """The largest difference of two values; infinite if they are of two kinds, or lack something."""
    if isinstance(our, dict) and isinstance(their, dict) and our.keys() == their.keys():
        return max((apart(our[key], their[key]) for key in our), default=0)
    if isinstance(our, list) and isinstance(their, list) and len(our) == len(their):
        return max((apart(a, b) for a, b in zip(our, their)), default=0)
    if isinstance(our, float) and isinstance(their, (int, float)):
        return abs(our - their)
    return 0 if our == their else math.inf


def choices(asap, folder, urls):
    """Whether all choose the same of four continuations, for a hundred questions."""
    generator, lines = random.Random(7), []
    for number in range(100):
        a, b = generator.randrange(10, 99), generator.randrange(10, 99)
        for option, answer in enumerate(generator.sample([a + b, a + b + 10, a + b - 1, b - a], 4)):
            texts = {"question": f"What is {a} + {b}?", "cot": f"{a} + {b} = {answer}."}
            lines.append(json.dumps({"id": f"{number:03}-{option}", **texts}))
    rows = Path(folder) / "choices.jsonl"
    rows.write_text("\n".join(lines))
    query = "SELECT id, cot_perplexity(question, [cot])[1] AS p FROM corpus ORDER BY id"

    def chosen(url=None):
        found = [row["p"] for row in asap.sql(query, rows, url)[0]]
        return [min(range(4), key=found[at : at + 4].__getitem__) for at in range(0, 400, 4)]

    ours = chosen()
    for form, url in urls.items():
        same = sum(our == their for our, their in zip(ours, chosen(url), strict=True))
        print(f"  {form}: {same} of 100 questions get the same of four continuations as by cpu", flush=True)
        same == 100 or sys.exit("expected all")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for required in ("--url", "--model", "--from"):
        arguments.add_argument(required, required=True)
    for name, default in (("--asap", "asap"), ("--chains", 200), ("--tokens", 600)):
        arguments.add_argument(name, default=default, type=type(default))
    given = arguments.parse_args()
    asap = Asap(given)
    Echo.url = given.url.removesuffix("/v1")
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    urls = {"as it is": given.url, "with echo": f"http://127.0.0.1:{proxy.server_port}/v1"}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        cut = f"array_to_string(array_slice(cot_steps(cot), 1, {given.tokens} / 150), chr(10) || chr(10))"
        query = f"""WITH cut AS (SELECT id, question, {cut} AS cot, 'x' AS answer FROM corpus)
            SELECT * FROM cut WHERE cot_tokens(cot) BETWEEN 20 AND {given.tokens} ORDER BY id LIMIT {given.chains}"""
        found = asap.sql(query, getattr(given, "from"))[0] or sys.exit("no chain is short enough")
        rows.write_text("\n".join(map(json.dumps, found)))
        scores = "cot_surprisal(question, cot_steps(cot)) AS s, cot_perplexity(question, cot_steps(cot)) AS p"
        asap.compare("chains", f"SELECT id, cot_tokens(cot) AS tokens, {scores} FROM corpus ORDER BY id", rows, urls)
        few = "FROM (SELECT * FROM corpus ORDER BY id LIMIT 10) ORDER BY id"
        asap.compare("forks", f"SELECT id, cot_attribution(question, cot_steps(cot), answer) AS s {few}", rows, urls)
        asap.compare("checks", f"SELECT id, cot_survives(question, cot_steps(cot), [1, 2], answer) AS s {few}", rows, urls)
        choices(asap, folder, urls)


if __name__ == "__main__":
    main()
