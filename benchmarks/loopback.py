"""``python -m benchmarks.loopback DELAY [SHARE]``: a chat-completions server on a free port, slow by so many seconds.

It answers with HTTP 500 to a share of the prompts, always the same ones.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zlib

_TEXT = '{"reason": "as asked", "score": 4, "status": "completed"}'
_REPLY = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "stub",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": _TEXT}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}  # fmt: skip
_BODY = json.dumps(_REPLY).encode()
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)


_FAILURE = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"


async def main(delay: float, share: float = 0.0) -> None:
    """Serve until killed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            fields = head.lower().split(b"content-length:")
            body = await reader.readexactly(int(fields[1].split(b"\r\n")[0]))
            await asyncio.sleep(delay)
            fails = share > 0.0 and zlib.crc32(body) % 10_000 < 10_000 * share
            writer.write(_FAILURE if fails else _ANSWER)
            await writer.drain()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(float, sys.argv[1:])))
