"""The pipeline's figures: scans, feeds and writes, with other sources measured in the same run."""
