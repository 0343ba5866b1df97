"""Request and response models of the social network's routes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from squinney.http.bodies import Body
from squinney.http.response_models import list_of, model_of, page_of
from squinney.social import rules
from squinney.social.documents import Circled, Comment, Notice, Person, Post, Profile, User

Id = Annotated[str, Field(min_length=1, max_length=200)]
CircleName = Annotated[str, Field(min_length=1, max_length=rules.MAX_CIRCLE_NAME_LENGTH)]


class NewMember(Body):
    """A new member. `user` is the id; by default, a new one is made."""

    name: str = Field(min_length=1, max_length=rules.MAX_NAME_LENGTH, examples=["Ann"])
    user: Id | None = None


class NewName(Body):
    """A member's new name."""

    name: str = Field(min_length=1, max_length=rules.MAX_NAME_LENGTH, examples=["Anne"])


class NewProfile(Body):
    """A member's new profile."""

    about: str = Field("", max_length=rules.PROFILE["about"])
    place: str = Field("", max_length=rules.PROFILE["place"])
    link: str = Field("", max_length=rules.PROFILE["link"])


class Other(Body):
    """Another member."""

    other: Id


class InCircle(Body):
    """Another member, and a circle of the member who acts."""

    other: Id
    circle: CircleName = Field(examples=["friends"])


class NewPost(Body):
    """A new post: its author, type, content and audience."""

    me: Id
    type: str = Field(max_length=20, examples=["status"])
    detail: dict[str, Any] = Field(examples=[{"text": "Soup at seven?"}])
    circles: list[CircleName] = Field(min_length=1, max_length=rules.MAX_CIRCLES, examples=[["*public*"]])
    to: Id | None = None


class NewComment(Body):
    """A new comment."""

    me: Id
    text: str = Field(min_length=1, max_length=rules.MAX_COMMENT_LENGTH)


class CircleModel(BaseModel):
    """One of a member's own circles, and the number of people in it."""

    name: str
    count: int


PersonModel = model_of(Person)
UserModel = model_of(User, circles=list_of(CircleModel))
ProfileModel = model_of(Profile)
CommentModel = model_of(Comment, model_name="CommentModel")
PostModel = model_of(Post, comments=list_of(CommentModel))
People = page_of(model_of(Circled))
Comments = page_of(CommentModel)
Posts = page_of(PostModel)
Notices = page_of(model_of(Notice))


class Circles(BaseModel):
    """The member's circles that contain the other member."""

    circles: list[str]


class Made(BaseModel):
    """The id of the new document."""

    id: str


class Unseen(BaseModel):
    """The number of notices that the member has not seen; 100 means 100 or more."""

    unseen: int


class Done(BaseModel):
    """The action succeeded."""

    done: bool = True
