"""Pages to look at: an incident over time as one file, and the playground of the documents.

incident   the content of a page: lanes, moments, states and findings of a recording, as data
assembly   the page as one HTML file, and the site's page with Pyodide
scenes     scenes of the playground: requests, the cell's responses and what they changed

`assets/` has the JavaScript modules, the style and the scenes.
"""
