"""Operations at once, in every order of their commands: `squinney.testing.Explorer` over everything we have."""
