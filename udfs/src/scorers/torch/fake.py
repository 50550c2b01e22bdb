"""A child without PyTorch: the surprisal of a token is its id in thousandths. What it does wrong is by request, over all of
its lives, which a file counts; it repeats what stands before a final exclamation mark. Some ids are always fatal. As an encoder, it keeps a token with
its id and its position in thousandths.
"""
import json, math, os, struct, sys, time
DIES, TOO_LARGE, NOT_FINITE = 1990, 1991, 1992
asked = json.loads(sys.argv[1])
folder, wrong = asked["dtype"].split(":")
stdin, out = sys.stdin.buffer, sys.stdout.buffer
def say(line): out.write(json.dumps(line).encode() + b"\n"); out.flush()
def numbers(count): return struct.unpack(f"<{count}i", stdin.read(4 * count))
say({"ready": True, "continues": True, "tokens": 100, "vocabulary": 2000})
for line in iter(stdin.readline, b""):
    asked = json.loads(line)
    with open(folder + "/count", "a+") as file: file.write("."); place = file.tell()
    repeats = wrong[-2] if wrong.endswith("!") else "-"
    fault = wrong[place - 1] if place <= len(wrong.rstrip("!")) else repeats
    if fault == "h": time.sleep(600)
    count = asked["rows"]
    keeps = asked["ask"] == "keep"
    ids = [] if keeps else numbers(sum(asked.get("lengths") or [own for _, own in asked["texts"]]))
    rows, targets = numbers(count), numbers(count)
    if DIES in ids: fault = "k"
    if TOO_LARGE in ids: fault = "m"
    if fault == "k": os.kill(os.getpid(), 9)
    if fault == "e": print("out of luck", file=sys.stderr); sys.exit(1)
    if fault == "g": out.write(b"Loading weights: 100%\n")
    if fault == "m": say({"id": asked["id"], "scores": 0, "memory": "no room"}); say({"end": asked["id"]}); continue
    if fault == "s": count -= 1; targets = targets[:count]
    say({"id": asked["id"] + (fault == "i"), "scores": count, "tokens": 50})
    if fault == "b": out.write(b"noise"); out.flush()
    always = {"N": math.nan, "I": math.inf, "L": 3e38, "Z": 0.0, "n": -9999.0}.get(fault)
    found = [id / 1000 if always is None else always for id in targets]
    if keeps: found = [one + row / 1000 for one, row in zip(found, rows)]
    found = [math.nan if id == NOT_FINITE else score for id, score in zip(targets, found)]
    scores = struct.pack(f"<{3 * count}f", *found, *([0.5] * count), *([1.0] * count))
    if fault == "H": out.write(scores[:5]); out.flush(); time.sleep(600)
    out.write(scores)
    say({"end": asked["id"]})
