r"""The recommended start of this library against what people use today.

Data flow: ``configuration -> {problems, model, learners} -> play -> (benchmarks.runner) ->
summaries -> {tables, figures}``. Run ``python -m benchmarks.practical compare``.
"""
