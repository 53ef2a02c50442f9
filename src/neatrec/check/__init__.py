"""The report of `neatrec check`: contents, suspicious items, statistical power."""
