"""This library beside others that do the same job, each used as its own pages say."""
