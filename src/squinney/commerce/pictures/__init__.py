"""Pictures of products, stored in several sizes."""
