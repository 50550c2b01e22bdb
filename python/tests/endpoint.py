"""An endpoint of language models that misbehaves: some calls are limited, fail, break off, or are refused for good."""

import hashlib
import http.server
import json
import random
import re
import socket
import threading
import time

PRICES = {"anchor_price_per_million_input_tokens": 100, "anchor_price_per_million_output_tokens": 100}


class Endpoint(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, faults=0.15, pause=0.02, seed=1):
        super().__init__(("127.0.0.1", 0), Calls)
        self.faults, self.pause, self.random, self.lock = faults, pause, random.Random(seed), threading.Lock()
        # When each request began and ended, by its body, and what its answer cost.
        self.answers = []
        self.calls = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """The process that asked was killed."""

    def settings(self):
        """Settings of a run that asks this endpoint."""
        url = f"http://127.0.0.1:{self.server_port}/v1"
        calls = {"anchor_timeout": 20, "anchor_max_tokens": 1000, "anchor_max_error_rate": 1}
        return {"anchor_provider": "openai", "anchor_base_url": url, "anchor_model": "stub", **calls, **PRICES}

    def cost(self):
        return sum(cost for *_, cost in self.answers)

    def repeated(self, kills=()):
        """The answers that were paid again, except those to calls that were in flight when a process was killed."""
        seen, again = {}, []
        for key, begun, ended, _ in self.answers:
            # An answer takes a moment to arrive and to be stored, longer on a machine that does other work.
            if key in seen and not any(seen[key][0] <= kill <= seen[key][1] + 2 for kill in kills):
                again.append(seen[key])
            seen[key] = begun, ended
        return again


class Calls(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        begun, server = time.monotonic(), self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        prompt = json.loads(body)["messages"][-1]["content"]
        key = hashlib.sha256(body).hexdigest()
        with server.lock:
            server.calls += 1
            fault = server.random.random() < server.faults and server.random.choice(
                ["limited", "fails", "breaks", "garbage"]
            )
        time.sleep(server.pause * (1 + int(key[:2], 16) % 3))
        if fault == "limited":
            return self.reply(429, {"error": {"message": "slow down"}}, {"Retry-After": "0"})
        if fault == "fails":
            return self.reply(503, {"error": {"message": "overloaded"}})
        if fault == "breaks":
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if fault == "garbage":
            return self.reply(200, {"unexpected": True})
        if "direct thought" in prompt and int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % 11 == 0:
            return self.reply(400, {"error": {"message": f"the filter refuses {key[:6]}"}})
        text = answer(prompt)
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
        cost = sum(usage.values()) * 100 / 1e6
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        with server.lock:
            server.answers.append((key, begun, time.monotonic(), cost))
        self.reply(200, {"object": "chat.completion", "model": "stub", "choices": [choice], "usage": usage})

    def reply(self, code, reply, headers=None):
        data = json.dumps(reply).encode()
        self.send_response(code)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            # The process that asked was killed.
            pass

    def log_message(self, *_):
        pass


def answer(prompt):
    """Every second step of a chain; a thought for any other prompt."""
    chain = re.search(r"<chain_of_thought>\n(.*)\n</chain_of_thought>", prompt, re.DOTALL)
    return "\n\n".join(chain[1].split("\n\n")[::2]) if chain else "Go through the given numbers to the answer."
