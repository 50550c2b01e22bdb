"""Calls: ours and the Python client of OpenAI, 10,000 each against the same server, 64 in flight.

    python3 benches/peers/calls.py
"""

import asyncio
import subprocess
import sys
import time
import venv
from pathlib import Path

PEER = "openai==2.8.1"
CALLS, IN_FLIGHT = 10_000, 64
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "peers" / "calls"


def main():
    if Path(sys.prefix) != FOLDER / "venv":
        venv.create(FOLDER / "venv", with_pip=True)
        subprocess.check_call([FOLDER / "venv/bin/pip", "install", "--quiet", PEER])
        return subprocess.check_call([FOLDER / "venv/bin/python", __file__, *sys.argv[1:]])
    bench = ["cargo", "bench", "--workspace", "--locked", "--bench", "calls"]
    print(subprocess.check_output([*bench, *sys.argv[1:]], cwd=ROOT, text=True), end="")
    server = subprocess.Popen(
        [*bench, *sys.argv[1:], "--", "serve"], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    base_url = server.stdout.readline().strip()
    begin, cpu = time.perf_counter(), time.process_time()
    asyncio.run(ask(base_url))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(f"{PEER}: {seconds:.1f} s, {cpu:.2f} CPU s ({cpu / seconds:.2f} cores), nothing kept")
    server.stdin.close()
    server.wait()


async def ask(base_url):
    import openai

    client = openai.AsyncOpenAI(base_url=base_url, api_key="none")
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(number):
        async with slots:
            messages = [{"role": "user", "content": f"call {number}"}]
            await client.chat.completions.create(model="m", messages=messages, temperature=0, max_tokens=8192)

    await asyncio.gather(*(one(number) for number in range(CALLS)))


if __name__ == "__main__":
    main()
