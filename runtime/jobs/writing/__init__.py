"""What a job writes: its output files, made of the journal and the input."""
