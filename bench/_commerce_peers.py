"""Moves subtrees in PostgreSQL for `bench/commerce_tree.py`, run by the Python of the peers' own environment.

It imports nothing of squinney. `python _commerce_peers.py <socket folder> <file of paths>`: each line on stdin names a
tree to move once, and the response is the time in seconds, or the reason why it is missing; `version` returns versions.
"""

import json
import sys
import time

SOCKET, PATHS = sys.argv[1:3]
DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": SOCKET}
STEPLEN = 4
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def set_up():
    import django
    from django.conf import settings

    settings.configure(
        DATABASES={"default": DATABASE}, INSTALLED_APPS=["treebeard"], DEFAULT_AUTO_FIELD="django.db.models.AutoField"
    )
    django.setup()


def nodes():
    """Return (id, parent id, depth, names) in depth-first order, from a file of paths of names."""
    with open(PATHS, encoding="utf-8") as lines:
        paths = sorted({tuple(path[:length]) for path in map(json.loads, lines) for length in range(1, len(path) + 1)})
    ids = {path: number for number, path in enumerate(paths, start=1)}
    return [(ids[path], ids.get(path[:-1]), len(path), path) for path in paths]


class Ltree:
    def __init__(self):
        from django.db import connection

        self.connection = connection
        with connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS ltree")
            cursor.execute("CREATE TABLE tree (id int PRIMARY KEY, name text, path ltree)")
            paths = {}
            for node_id, parent, _, names in nodes():
                paths[node_id] = f"{paths[parent]}.{node_id}" if parent else str(node_id)
                cursor.execute("INSERT INTO tree VALUES (%s, %s, %s)", [node_id, names[-1], paths[node_id]])
            cursor.execute("CREATE INDEX ON tree USING gist (path)")
            cursor.execute("ANALYZE tree")
        self.ids = {names: node_id for node_id, _, _, names in nodes()}
        self.at, self.other = "a", "b"

    def move(self):
        old, new, top = self.ids[(self.at,)], self.ids[(self.other,)], self.ids[("a", "x")]
        with self.connection.cursor() as cursor:
            cursor.execute(
                "UPDATE tree SET path = %s::ltree || subpath(path, 1) WHERE path <@ %s::ltree",
                [str(new), f"{old}.{top}"],
            )
            moved = cursor.rowcount
        self.at, self.other = self.other, self.at
        return moved


class Treebeard:
    def __init__(self, kind):
        from django.db import connection, models
        from treebeard.mp_tree import MP_Node
        from treebeard.ns_tree import NS_Node

        base = MP_Node if kind == "MP" else NS_Node
        fields = {"name": models.CharField(max_length=255), "__module__": "treebeard.models"}
        fields["Meta"] = type("Meta", (), {"app_label": "treebeard"})
        self.model = type(f"{kind}Category", (base,), fields)
        with connection.schema_editor() as editor:
            editor.create_model(self.model)
        self.model.objects.bulk_create(self._rows(kind), batch_size=2000)
        self.other = "b"

    def _rows(self, kind):
        rows = nodes()
        children = {}
        for node_id, parent, _, _ in rows:
            children.setdefault(parent, []).append(node_id)
        if kind == "MP":
            paths = {}
            for node_id, parent, depth, names in rows:
                position = children[parent].index(node_id) + 1
                paths[node_id] = paths.get(parent, "") + self._step(position)
                yield self.model(
                    path=paths[node_id], depth=depth, numchild=len(children.get(node_id, [])), name=names[-1]
                )
            return
        left, right, tree = {}, {}, {}
        for number, root in enumerate(children[None], start=1):
            counter, stack = 0, [(root, False)]
            while stack:
                node_id, done = stack.pop()
                counter += 1
                if done:
                    right[node_id] = counter
                    continue
                left[node_id], tree[node_id] = counter, number
                stack.append((node_id, True))
                stack += [(child, False) for child in reversed(children.get(node_id, []))]
        for node_id, _, depth, names in rows:
            yield self.model(lft=left[node_id], rgt=right[node_id], tree_id=tree[node_id], depth=depth, name=names[-1])

    def _step(self, number):
        digits = ""
        while number:
            number, digit = divmod(number, len(ALPHABET))
            digits = ALPHABET[digit] + digits
        return digits.rjust(STEPLEN, "0")

    def move(self):
        from django.db import transaction

        with transaction.atomic():
            top = self.model.objects.get(name="x")
            top.move(self.model.objects.get(name=self.other, depth=1), "last-child")
            moved = top.get_descendant_count() + 1
        self.other = "a" if self.other == "b" else "b"
        return moved


MAKERS = {"ltree": Ltree, "treebeard MP": lambda: Treebeard("MP"), "treebeard NS": lambda: Treebeard("NS")}


def version():
    from importlib.metadata import version as of

    import django
    from django.db import connection

    connection.ensure_connection()
    server = str(connection.pg_version)[:2]
    return f"django-treebeard {of('django-treebeard')}, Django {django.__version__}, PostgreSQL {server}."


def main():
    set_up()
    peers = {}
    for line in sys.stdin:
        name = line.strip()
        try:
            if name == "version":
                print(json.dumps({"version": version()}), flush=True)
                continue
            if name not in peers:
                peers[name] = MAKERS[name]()
                peers[name].move()
            began = time.perf_counter()
            moved = peers[name].move()
            print(json.dumps({"seconds": time.perf_counter() - began, "moved": moved}), flush=True)
        except Exception as error:
            print(json.dumps({"missing": f"{type(error).__name__}: {error}"[:200]}), flush=True)


main()
