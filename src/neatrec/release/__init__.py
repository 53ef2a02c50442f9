"""Bundles in production: publish, limits, diff, rollback, exports."""
