"""Scenario files, one for each subject; `testing/exam/model.py` describes them."""
