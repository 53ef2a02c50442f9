"""By which names a service may be called.

A page from anywhere can give its own name the address 127.0.0.1 after it was loaded, and then read what a service on
this machine answers: for the browser that is the same origin. Such a request still carries the name of the page.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def without_port(host: bytes) -> str:
    """The name in a Host header.

    >>> without_port(b"LocalHost:8000"), without_port(b"[::1]:8000"), without_port(b"127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def is_called_rightly(host: bytes | None, bound: str | None) -> bool:
    """Whether a Host header names the address `bound` or this machine; any will do where no address is known."""
    if bound is None:
        return True
    name = without_port(host or b"")
    return is_loopback(name) or name == bound.lower()
