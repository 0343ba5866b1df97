"""What happens in one system and shows in another. No system knows of it: each link is composed here."""
