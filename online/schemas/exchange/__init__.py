"""What other devices load and send: exported files, and the rounds of a cohort."""
