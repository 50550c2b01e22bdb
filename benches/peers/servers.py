"""Servers for lake.py, each on its own thread: a bucket that counts requests, and a language model with a delay."""

import asyncio
import hashlib
import json
import re
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape, unescape

PAGE = 1000


class Server:
    """Answers each HTTP/1.1 request after `delay` seconds."""

    delay = 0.0

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._serve, args=[started], daemon=True).start()
        started.wait()

    def _serve(self, started):
        async def listen():
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
            self.address = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
            started.set()
            await server.serve_forever()

        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(listen())

    async def _connection(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")
                method, target, _ = first.split(" ")
                headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, more, body = await self.answer(method, target, headers, body)
                more = {"content-length": len(body), **more}
                lines = [f"HTTP/1.1 {status} x", *(f"{name}: {value}" for name, value in more.items())]
                writer.write("\r\n".join([*lines, "", ""]).encode())
                writer.write(b"" if method == "HEAD" else body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Bucket(Server):
    """The bucket `lake` of an in-memory S3 server. Records each request."""

    def __init__(self):
        self.objects, self.uploads = {}, {}
        self.requests = []
        # Called with the key of each written object.
        self.on_put = lambda key: None
        super().__init__()

    def environment(self):
        """Returns the variables that point asap to it."""
        names = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
        return {**names, "AWS_ENDPOINT_URL": self.address, "AWS_ALLOW_HTTP": "true"}

    async def answer(self, method, target, headers, body):
        path, _, query = target.partition("?")
        key = urllib.parse.unquote(path).removeprefix("/lake").lstrip("/")
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        status, more, reply = self._answer(method, key, query, headers, body)
        self.requests.append((method, key, len(reply) if method == "GET" else len(body)))
        if self.delay:
            await asyncio.sleep(self.delay)
        return status, more, reply

    def _answer(self, method, key, query, headers, body):
        if method == "GET" and "list-type" in query:
            return 200, {}, self._list(query).encode()
        if method in ("GET", "HEAD"):
            return self._get(method, key, headers)
        if method == "PUT" and "uploadId" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            return 200, {"etag": '"part"'}, b""
        if method == "PUT":
            if headers.get("if-none-match") == "*" and key in self.objects:
                return 412, {}, b""
            return 200, {"etag": self._put(key, body)}, b""
        if method == "POST" and "delete" in query:
            names = re.findall("<Key>(.*?)</Key>", body.decode())
            for name in names:
                self.objects.pop(unescape(name), None)
            deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            return 200, {}, f"<DeleteResult>{deleted}</DeleteResult>".encode()
        if method == "POST" and "uploads" in query:
            upload = f"upload{len(self.uploads)}"
            self.uploads[upload] = {}
            xml = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return 200, {}, xml.encode()
        if method == "POST" and "uploadId" in query:
            parts = self.uploads.pop(query["uploadId"])
            etag = self._put(key, b"".join(parts[number] for number in sorted(parts)))
            xml = f"<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag></CompleteMultipartUploadResult>"
            return 200, {}, xml.encode()
        if method == "DELETE":
            self.objects.pop(key, None)
            return 204, {}, b""
        return 405, {}, b""

    def _put(self, key, body):
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        self.objects[key] = (body, etag, time.time())
        self.on_put(key)
        return etag

    def _get(self, method, key, headers):
        if key not in self.objects:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        body, etag, modified = self.objects[key]
        more = {"etag": etag, "last-modified": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(modified))}
        if headers.get("if-match", etag) != etag:
            return 412, more, b""
        if method == "HEAD":
            return 200, {**more, "content-length": len(body)}, b""
        if (asked := headers.get("range", "")) == "":
            return 200, more, body
        first, last = asked.removeprefix("bytes=").split("-")
        if first == "":
            first, last = len(body) - int(last), len(body) - 1
        first, last = max(int(first), 0), min(int(last or len(body)), len(body) - 1)
        return 206, {**more, "content-range": f"bytes {first}-{last}/{len(body)}"}, body[first : last + 1]

    def _list(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        keys, folders, token = [], [], None
        for key in sorted(key for key in self.objects if key.startswith(prefix) and key > after):
            name = key[len(prefix) :]
            folder = prefix + name.split(delimiter)[0] + delimiter if delimiter and delimiter in name else None
            if folder and (folder in folders or after.startswith(folder)):
                continue
            if len(keys) + len(folders) == PAGE:
                token = last
                break
            folders.append(folder) if folder else keys.append(key)
            last = key
        parts = [f"<Prefix>{escape(prefix)}</Prefix><IsTruncated>{str(token is not None).lower()}</IsTruncated>"]
        parts.extend([f"<NextContinuationToken>{escape(token)}</NextContinuationToken>"] if token else [])
        for key in keys:
            body, etag, modified = self.objects[key]
            modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(modified))
            size = f"<Size>{len(body)}</Size><LastModified>{modified}</LastModified><ETag>{escape(etag)}</ETag>"
            parts.append(f"<Contents><Key>{escape(key)}</Key>{size}</Contents>")
        parts.extend(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders)
        return f"<ListBucketResult>{''.join(parts)}</ListBucketResult>"


class Model(Server):
    """Answers chat completions with `yes`. Records the start and end of each call."""

    def __init__(self):
        self.calls = []
        super().__init__()

    async def answer(self, method, target, headers, body):
        begin = time.perf_counter()
        await asyncio.sleep(self.delay)
        self.calls.append((begin, time.perf_counter()))
        message = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
        reply = {"id": "1", "object": "chat.completion", "model": "m", "choices": [message], "usage": usage}
        return 200, {"content-type": "application/json"}, json.dumps(reply).encode()

    def in_flight(self, begin, end):
        """Returns the average number of calls in flight between two times."""
        return sum(max(0, min(last, end) - max(first, begin)) for first, last in self.calls) / (end - begin)
