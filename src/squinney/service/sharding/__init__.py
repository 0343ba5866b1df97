"""The way to a sharded cluster: what to shard by which key, doing it on a live site, and whether queries are routed."""

from squinney.service.sharding.applying import shard
from squinney.service.sharding.checking import Checked, check
from squinney.service.sharding.planning import Planned, plan

__all__ = ["Checked", "Planned", "check", "plan", "shard"]
