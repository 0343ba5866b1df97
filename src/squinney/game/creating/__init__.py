"""New rooms, things and characters: their documents from checked input, and the plans that insert them."""
