"""Why the driver found no usable server, in one sentence for the user who set the URI."""

from __future__ import annotations

import re

from pymongo.server_description import ServerDescription
from pymongo.topology_description import TopologyDescription

NOT_INITIATED = "its replica set is not initiated yet; run rs.initiate() there once, in mongosh"
# What the driver adds to the cause: the host, which our message has already, an error number, and its own settings.
_WRAPPING = re.compile(r"\[Errno -?\d+\] | \(configured timeouts:.*|, Timeout: .*")


def why_unreachable(topology: TopologyDescription) -> str:
    """Return the hosts, and the problem of each."""
    servers = topology.server_descriptions()
    if not servers:
        return f"no server there belongs to a replica set named {topology.replica_set_name}"
    return "; ".join(f"{_name(address)}: {_problem(server)}" for address, server in sorted(servers.items(), key=str))


def _name(address: tuple[str, int | None]) -> str:
    host, port = address
    return host if port is None or host.startswith("/") else f"{host}:{port}"


def _problem(server: ServerDescription) -> str:
    if server.error is not None:
        return _WRAPPING.sub("", str(server.error)).replace(f"{_name(server.address)}: ", "")
    if server.server_type_name == "RSGhost":
        return NOT_INITIATED
    if server.server_type_name == "Unknown":
        return "it has not responded"
    return f"it is not the primary ({server.server_type_name}), and there is none"
