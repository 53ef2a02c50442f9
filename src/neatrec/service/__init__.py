"""The service: an API for shops and a page for people, answering from a bundle's serving table."""
