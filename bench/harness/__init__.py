"""Runs peers and Reseq in turn on one machine, and writes one table."""
