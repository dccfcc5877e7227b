"""Recorded exchanges for the observer (`state/observed`), and a page with plots of its findings."""
