"""A child without PyTorch: the surprisal of a token is its id in thousandths. What it does wrong is by request, over all of
its lives, which a file counts.
"""
import json, os, struct, sys
asked = json.loads(sys.argv[1])
folder, wrong = asked["dtype"].split(":")
stdin, out = sys.stdin.buffer, sys.stdout.buffer
def say(line): out.write(json.dumps(line).encode() + b"\n"); out.flush()
def numbers(count): return struct.unpack(f"<{count}i", stdin.read(4 * count))
say({"ready": True, "continues": True, "tokens": 100, "vocabulary": 2000})
for line in iter(stdin.readline, b""):
    asked = json.loads(line)
    with open(folder + "/count", "a+") as file: file.write("."); place = file.tell()
    fault = wrong[place - 1] if place <= len(wrong) else "-" if not wrong.endswith("!") else wrong[-2]
    count = asked["rows"]
    ids = numbers(sum(asked.get("lengths") or [own for _, own in asked["texts"]]))
    rows, targets = numbers(count), numbers(count)
    if fault == "k": os.kill(os.getpid(), 9)
    if fault == "e": print("out of luck", file=sys.stderr); sys.exit(1)
    if fault == "g": out.write(b"Loading weights: 100%\n")
    if fault == "m": say({"id": asked["id"], "scores": 0, "memory": "no room"}); say({"end": asked["id"]}); continue
    if fault == "s": count -= 1; targets = targets[:count]
    say({"id": asked["id"] + (fault == "i"), "scores": count, "tokens": 50})
    if fault == "b": out.write(b"noise"); out.flush()
    sign = -1 if fault == "n" else 1
    out.write(struct.pack(f"<{2 * count}f", *(sign * id / 1000 for id in targets), *([0.5] * count)))
    say({"end": asked["id"]})
