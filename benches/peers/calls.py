"""asap against the Python client of OpenAI: 10,000 calls each to the same server, 64 in flight.

    python3 benches/peers/calls.py
"""

import asyncio
import subprocess
import sys
import time

from common import ROOT, is_with

PEER = "openai==2.8.1"
CALLS, IN_FLIGHT = 10_000, 64


def main():
    if not is_with("calls", PEER):
        return
    bench = ["cargo", "bench", "--workspace", "--locked", "--bench", "calls"]
    print(subprocess.check_output([*bench, *sys.argv[1:]], cwd=ROOT, text=True), end="")
    server = subprocess.Popen(
        [*bench, *sys.argv[1:], "--", "serve"], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    base_url = server.stdout.readline().strip()
    begin, cpu = time.perf_counter(), time.process_time()
    asyncio.run(ask(base_url))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(f"{PEER}: {seconds:.1f} s, {cpu:.2f} CPU s ({cpu / seconds:.2f} cores), no answers saved")
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
