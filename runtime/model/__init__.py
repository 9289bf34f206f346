"""Running a model: packed ragged rows in, hidden states out."""
