"""Small drawn changes to the code: does a test notice each?"""
