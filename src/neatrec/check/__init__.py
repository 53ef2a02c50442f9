"""What `neatrec check` reports: contents, suspicious items, statistical power."""
