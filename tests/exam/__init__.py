"""The authors' side of the exam: scenarios as functions, and the recording of their goldens.

`testing/exam` plays what is recorded here.
"""
