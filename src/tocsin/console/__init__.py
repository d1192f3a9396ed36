"""The web console: an ordinary admin client with pages."""
