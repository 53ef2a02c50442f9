"""From a source of orders to a bundle."""
