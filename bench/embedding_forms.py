"""The same data stored in different forms, and the same tasks on each form; `bench/embedding.py` measures them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from squinney.mongo.schema import Db, Document

PEOPLE, BOOKS, WRITERS, POSTS, COMMENTS_A_POST, READERS = 2_000, 1_000, 300, 200, 50, 400
TEXT = "A comment of the usual length, which is neither a single word nor quite a letter to the editor. " * 2

Do = Callable[[Db, random.Random], Any]


@dataclass(frozen=True)
class Way:
    """How a task is done in one form; ways of one task that read return the same result."""

    form: str
    do: Do


# ---- one to many: a phone book ----


def fill_phone_book(db: Db) -> None:
    """Insert people with three numbers each: embedded in `people`, and referenced in `contacts` and `numbers`."""
    names = [(person, f"Person {person}", [f"+49-{person:05}-{n}" for n in range(3)]) for person in range(PEOPLE)]
    db["people"].insert_many(
        {"_id": person_id, "name": name, "zip": "30062", "numbers": own} for person_id, name, own in names
    )
    db["contacts"].insert_many({"_id": person_id, "name": name, "zip": "30062"} for person_id, name, _ in names)
    db["numbers"].insert_many({"_id": number, "contact_id": person_id} for person_id, _, own in names for number in own)
    db["people"].create_index("numbers")
    db["numbers"].create_index("contact_id")


def contact_embedded(db: Db, chance: random.Random) -> Any:
    """Read one document."""
    person = db["people"].find_one({"_id": chance.randrange(PEOPLE)})
    return person["name"], person["numbers"]  # type: ignore[index]


def contact_two_queries(db: Db, chance: random.Random) -> Any:
    """Read the contact, then its numbers."""
    contact = db["contacts"].find_one({"_id": chance.randrange(PEOPLE)})
    numbers = db["numbers"].find({"contact_id": contact["_id"]})  # type: ignore[index]
    return contact["name"], sorted(number["_id"] for number in numbers)  # type: ignore[index]


def contact_lookup(db: Db, chance: random.Random) -> Any:
    """Read the contact with its numbers, joined by the server."""
    joined = {"$lookup": {"from": "numbers", "localField": "_id", "foreignField": "contact_id", "as": "numbers"}}
    contact = next(db["contacts"].aggregate([{"$match": {"_id": chance.randrange(PEOPLE)}}, joined]))
    return contact["name"], sorted(number["_id"] for number in contact["numbers"])


def caller_embedded(db: Db, chance: random.Random) -> Any:
    """Find the person by an index on the array."""
    return db["people"].find_one({"numbers": f"+49-{chance.randrange(PEOPLE):05}-1"}, {"name": 1})["name"]  # type: ignore[index]


def caller_two_queries(db: Db, chance: random.Random) -> Any:
    """Read the number, then its contact."""
    number = db["numbers"].find_one({"_id": f"+49-{chance.randrange(PEOPLE):05}-1"})
    return db["contacts"].find_one({"_id": number["contact_id"]}, {"name": 1})["name"]  # type: ignore[index]


def number_embedded(db: Db, chance: random.Random) -> None:
    """Push a number and drop the oldest, so that documents do not grow."""
    number = f"x-{chance.random()}"
    db["people"].update_one(
        {"_id": chance.randrange(PEOPLE)}, {"$push": {"numbers": {"$each": [number], "$slice": -3}}}
    )


def number_referenced(db: Db, chance: random.Random) -> None:
    """Insert one document."""
    db["numbers"].insert_one({"_id": f"x-{chance.random()}", "contact_id": chance.randrange(PEOPLE)})


# ---- one to many, where the parts are also read separately: posts with comments ----


def fill_blog(db: Db) -> None:
    """Insert posts with their comments embedded in `threads`, and separately in `posts` and `comments`."""
    chance = random.Random(1)
    for post in range(POSTS):
        own = [_comment(chance, post, number) for number in range(COMMENTS_A_POST)]
        db["threads"].insert_one({"_id": post, "title": f"Post {post}", "text": TEXT * 5, "comments": own})
        db["posts"].insert_one({"_id": post, "title": f"Post {post}", "text": TEXT * 5})
        db["comments"].insert_many({"_id": f"{post}-{comment['n']}", "post_id": post, **comment} for comment in own)
    db["threads"].create_index("comments.author")
    db["comments"].create_index([("post_id", 1), ("n", 1)])
    db["comments"].create_index([("author", 1)])


def _comment(chance: random.Random, post: int, number: int) -> Document:
    return {"n": number, "author": f"reader {chance.randrange(READERS)}", "text": TEXT}


def _author(chance: random.Random) -> str:
    return f"reader {chance.randrange(READERS)}"


def post_embedded(db: Db, chance: random.Random) -> Any:
    """Read one document."""
    thread = db["threads"].find_one({"_id": chance.randrange(POSTS)})
    return thread and (thread["title"], len(thread["comments"]))


def post_two_queries(db: Db, chance: random.Random) -> Any:
    """Read the post, then its comments."""
    post = db["posts"].find_one({"_id": chance.randrange(POSTS)})
    return post and (post["title"], len(list(db["comments"].find({"post_id": post["_id"]}, sort=[("n", 1)]))))


def by_author_filtered_here(db: Db, chance: random.Random) -> Any:
    """Read every post that the author commented on, with all comments, and filter them in Python."""
    author = _author(chance)
    threads = db["threads"].find({"comments.author": author}, {"comments": 1})
    return sorted((thread["_id"], c["n"]) for thread in threads for c in thread["comments"] if c["author"] == author)


def by_author_filtered_there(db: Db, chance: random.Random) -> Any:
    """Let the server read the same posts and return only the author's comments."""
    author = _author(chance)
    own = {"$filter": {"input": "$comments", "cond": {"$eq": ["$$this.author", author]}}}
    threads = db["threads"].aggregate([{"$match": {"comments.author": author}}, {"$project": {"comments": own}}])
    return sorted((thread["_id"], comment["n"]) for thread in threads for comment in thread["comments"])


def by_author_referenced(db: Db, chance: random.Random) -> Any:
    """Find the comments by an index on the author."""
    comments = db["comments"].find({"author": _author(chance)})
    return sorted((comment["post_id"], comment["n"]) for comment in comments)


# ---- many to many: books and their writers ----


def fill_books(db: Db) -> None:
    """Insert books and writers in three forms: a join collection, lists of ids, and each embedded in the other."""
    chance = random.Random(2)
    of_book = {book: sorted(chance.sample(range(WRITERS), chance.choice([1, 2, 3]))) for book in range(BOOKS)}
    of_writer = {w: [book for book, own in of_book.items() if w in own] for w in range(WRITERS)}
    db["books_j"].insert_many({"_id": book, "title": f"Title {book}"} for book in of_book)
    db["writers_j"].insert_many({"_id": writer, "name": f"Writer {writer}"} for writer in of_writer)
    db["writings"].insert_many({"book_id": book, "writer_id": w} for book, own in of_book.items() for w in own)
    db["writings"].create_index([("book_id", 1), ("writer_id", 1)], unique=True)
    db["writings"].create_index([("writer_id", 1), ("book_id", 1)])
    db["books_i"].insert_many({"_id": b, "title": f"Title {b}", "writer_ids": own} for b, own in of_book.items())
    db["books_i"].create_index("writer_ids")
    db["writers_i"].insert_many({"_id": writer, "name": f"Writer {writer}"} for writer in of_writer)
    db["books_e"].insert_many(
        {"_id": book, "title": f"Title {book}", "writers": [{"_id": w, "name": f"Writer {w}"} for w in own]}
        for book, own in of_book.items()
    )
    db["books_e"].create_index("writers._id")
    db["writers_e"].insert_many(
        {"_id": w, "name": f"Writer {w}", "books": [{"_id": book, "title": f"Title {book}"} for book in own]}
        for w, own in of_writer.items()
    )
    db["writers_e"].create_index("books._id")


def book_joined(db: Db, chance: random.Random) -> Any:
    """Read the book, its writings, and their writers."""
    book = db["books_j"].find_one({"_id": chance.randrange(BOOKS)})
    ids = [writing["writer_id"] for writing in db["writings"].find({"book_id": book["_id"]})]  # type: ignore[index]
    return book["title"], sorted(w["name"] for w in db["writers_j"].find({"_id": {"$in": ids}}))  # type: ignore[index]


def book_by_ids(db: Db, chance: random.Random) -> Any:
    """Read the book, then its writers."""
    book = db["books_i"].find_one({"_id": chance.randrange(BOOKS)})
    writers = db["writers_i"].find({"_id": {"$in": book["writer_ids"]}})  # type: ignore[index]
    return book["title"], sorted(writer["name"] for writer in writers)  # type: ignore[index]


def book_embedded(db: Db, chance: random.Random) -> Any:
    """Read the book."""
    book = db["books_e"].find_one({"_id": chance.randrange(BOOKS)})
    return book["title"], sorted(writer["name"] for writer in book["writers"])  # type: ignore[index]


def writer_joined(db: Db, chance: random.Random) -> Any:
    """Read the writer, the writings, and their books."""
    writer = db["writers_j"].find_one({"_id": chance.randrange(WRITERS)})
    ids = [writing["book_id"] for writing in db["writings"].find({"writer_id": writer["_id"]})]  # type: ignore[index]
    return writer["name"], sorted(b["title"] for b in db["books_j"].find({"_id": {"$in": ids}}))  # type: ignore[index]


def writer_by_ids(db: Db, chance: random.Random) -> Any:
    """Read the writer, then the books."""
    writer = db["writers_i"].find_one({"_id": chance.randrange(WRITERS)})
    books = db["books_i"].find({"writer_ids": writer["_id"]}, {"title": 1})  # type: ignore[index]
    return writer["name"], sorted(book["title"] for book in books)  # type: ignore[index]


def writer_embedded(db: Db, chance: random.Random) -> Any:
    """Read the writer."""
    writer = db["writers_e"].find_one({"_id": chance.randrange(WRITERS)})
    return writer["name"], sorted(book["title"] for book in writer["books"])  # type: ignore[index]


def _rename(collection: str) -> Do:
    def rename(db: Db, chance: random.Random) -> None:
        db[collection].update_one({"_id": chance.randrange(WRITERS)}, {"$set": {"name": f"Writer {chance.random()}"}})

    return rename


def rename_embedded(db: Db, chance: random.Random) -> None:
    """Rename the writer, then in every book that has the name: between the two updates, readers see two names."""
    writer, name = chance.randrange(WRITERS), f"Writer {chance.random()}"
    db["writers_e"].update_one({"_id": writer}, {"$set": {"name": name}})
    filters = [{"w._id": writer}]
    db["books_e"].update_many({"writers._id": writer}, {"$set": {"writers.$[w].name": name}}, array_filters=filters)


# ---- growth: the size at which an array becomes too long ----


def fill_growing(db: Db, size: int) -> None:
    """Insert one post with `size` comments in both forms."""
    chance = random.Random(3)
    comments = [_comment(chance, 0, number) for number in range(size)]
    db["long_threads"].insert_one({"_id": size, "title": "", "comments": comments})
    db["long_comments"].insert_many({"post_id": size, **comment} for comment in comments)
    db["long_comments"].create_index([("post_id", 1), ("n", 1)])


def growing(size: int) -> dict[str, list[Way]]:
    """Return the tasks on a post with `size` comments."""

    def add_embedded(db: Db, chance: random.Random) -> None:
        pushed = {"$each": [_comment(chance, 0, size)], "$slice": -size}  # the array keeps its length
        db["long_threads"].update_one({"_id": size}, {"$push": {"comments": pushed}})

    def add_referenced(db: Db, chance: random.Random) -> None:
        db["long_comments"].insert_one({"post_id": -size, **_comment(chance, 0, size)})

    def newest_embedded(db: Db, chance: random.Random) -> Any:
        thread = db["long_threads"].find_one({"_id": size}, {"comments": {"$slice": -20}})
        return len(thread["comments"])  # type: ignore[index]

    def newest_referenced(db: Db, chance: random.Random) -> Any:
        return len(list(db["long_comments"].find({"post_id": size}, sort=[("n", -1)], limit=20)))

    return {
        "add a comment": [Way("embedded", add_embedded), Way("referenced", add_referenced)],
        "the newest 20": [Way("embedded", newest_embedded), Way("referenced", newest_referenced)],
    }


PHONE_BOOK = {
    "a contact with its numbers": [
        Way("embedded", contact_embedded),
        Way("referenced, two queries", contact_two_queries),
        Way("referenced, `$lookup`", contact_lookup),
    ],
    "caller id": [Way("embedded", caller_embedded), Way("referenced, two queries", caller_two_queries)],
    "another number": [Way("embedded", number_embedded), Way("referenced", number_referenced)],
}
BLOG = {
    "a post with its comments": [Way("embedded", post_embedded), Way("referenced, two queries", post_two_queries)],
    "comments by one author": [
        Way("embedded, filtered by the client", by_author_filtered_here),
        Way("embedded, filtered by the server", by_author_filtered_there),
        Way("referenced", by_author_referenced),
    ],
}
BOOKSHELF = {
    "a book with its writers' names": [
        Way("embedded both ways", book_embedded),
        Way("lists of ids", book_by_ids),
        Way("join collection", book_joined),
    ],
    "a writer with titles": [
        Way("embedded both ways", writer_embedded),
        Way("lists of ids", writer_by_ids),
        Way("join collection", writer_joined),
    ],
    "rename a writer": [
        Way("embedded both ways", rename_embedded),
        Way("lists of ids", _rename("writers_i")),
        Way("join collection", _rename("writers_j")),
    ],
}
