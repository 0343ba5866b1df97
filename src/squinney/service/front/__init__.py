"""The pages that belong to no system: cards of the home page, admin, what search engines read, trying the demo."""
