"""What a job reads: files, folders, data sets and iterators, as rows."""
