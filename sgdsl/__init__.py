"""The structured-generation language: programs, graphs, outcomes and backends."""
