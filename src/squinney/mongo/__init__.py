"""The MongoDB server: finding or starting it, connecting, and preparing databases."""
