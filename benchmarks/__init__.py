"""What flask_sitemapx costs, beside other libraries and beside limits: `python -m benchmarks`.

Every figure worth quoting is a ratio of two rows of one run, since times on shared machines swing twofold.
"""
