"""A TCP proxy that can be cut: silently, as by a network that loses everything, or by closing its connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Passes everything from `port` to the target, until it is told otherwise. Use as a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._passing = threading.Event()
        self._passing.set()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._closed = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed = True
        self._passing.set()
        self._listener.close()
        self.drop()

    def cut(self) -> None:
        """Nothing gets through any more, and nobody is told."""
        self._passing.clear()

    def heal(self) -> None:
        """What was held back arrives after all."""
        self._passing.set()

    def drop(self) -> None:
        """Close every connection."""
        for pair in list(self._pairs):
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._passing.wait()
        try:
            target = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        pair = client, target
        self._pairs.add(pair)
        back = threading.Thread(target=self._pass, args=(target, client), daemon=True)
        back.start()
        self._pass(client, target)
        back.join()
        self._pairs.discard(pair)
        client.close()
        target.close()

    def _look(self, data: bytes, source: socket.socket, sink: socket.socket) -> None:
        """For those who want to see what passes, or to hold it."""

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        """One way, to its end; the other way then ends too."""
        with contextlib.suppress(OSError):  # one of them has gone; the other is told
            while data := source.recv(1 << 16):
                self._passing.wait()
                self._look(data, source, sink)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
