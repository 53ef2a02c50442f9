"""The report: tables, figures, one page that needs nothing else."""
