"""`Polls`: open polls, vote, read the results, close polls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from polls import queries
from polls.documents import MAX_OPTIONS, Poll, Vote
from polls.errors import AlreadyVoted, PollClosed, UnknownPoll
from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Step, Transactions


class Polls:
    """Questions with a few options; each person votes once."""

    def __init__(self, db: Db, *, transactions: Transactions | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._clock = clock

    @operation()
    def open(self, question: str, options: Sequence[str]) -> Poll:
        """Create a poll.

        Raises: `Invalid`.
        """
        checks.text(question, "question", min_length=1, max_length=200)
        if not 2 <= len(options) <= MAX_OPTIONS or len(set(options)) < len(options):
            raise Invalid(f"options must be 2 to {MAX_OPTIONS} different texts", field="options", limit=MAX_OPTIONS)
        for option in options:
            checks.text(option, "options", min_length=1, max_length=100)
        poll: Poll = {
            "_id": new_id(),
            "question": question,
            "options": [{"name": option, "votes": 0} for option in options],
            "opened_at": self._clock(),
        }
        self._db["polls"].insert_one(cast(Document, poll))
        return poll

    @operation()
    def vote(self, poll_id: str, person_id: str, option: str) -> Vote:
        """Vote for an option. Each person can vote once in a poll.

        Atomic: the vote and its count, in one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownPoll`, `PollClosed`, `AlreadyVoted`, `Busy`, `Unavailable`.
        """
        poll = self.get(poll_id)
        checks.identifier(person_id, "person")
        names = [listed["name"] for listed in poll["options"]]
        if option not in names:
            raise Invalid(f"option must be one of {', '.join(names)}", field="option")
        vote: Vote = {
            "_id": f"{poll_id}-{person_id}",
            "poll_id": poll_id,
            "person_id": person_id,
            "option": option,
            "at": self._clock(),
        }
        self._transactions.run("vote", vote_steps(vote))
        return vote

    @operation(reads_only=True)
    def get(self, poll_id: str) -> Poll:
        """Return a poll with the votes of each option.

        Raises: `UnknownPoll`.
        """
        poll = queries.POLL.find_one(self._db, poll_id=checks.identifier(poll_id, "poll"))
        if poll is None:
            raise UnknownPoll(f"there is no poll {poll_id}", poll_id=poll_id)
        return cast(Poll, poll)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[Poll]:
        """List polls, the newest first.

        Raises: `Invalid`.
        """
        return cast(Page[Poll], page(self._db, queries.ALL, cursor=cursor, limit=limit))

    @operation()
    def close(self, poll_id: str) -> Poll:
        """Close a poll, so that it accepts no more votes. Closing it again changes nothing.

        Raises: `UnknownPoll`.
        """
        self.get(poll_id)
        closing = Step("polls", poll_id, update={"$min": {"closed_at": self._clock()}}, refused=UnknownPoll)
        self._transactions.run("close", [closing])
        return self.get(poll_id)


def vote_steps(vote: Vote) -> list[Step]:
    """Return the steps of a vote: count it if the poll is open, and insert it if this person has not voted yet."""

    def refusal(poll: Document | None) -> SquinneyError:
        return PollClosed(poll_id=vote["poll_id"]) if poll else UnknownPoll(poll_id=vote["poll_id"])

    counted = Step(
        "polls",
        vote["poll_id"],
        guard={"closed_at": None},
        update={"$inc": {"options.$[chosen].votes": 1}},
        array_filters=[{"chosen.name": vote["option"]}],
        refused=refusal,
    )
    return [counted, Step("poll_votes", vote["_id"], insert=vote, refused=AlreadyVoted)]
