"""The exam: compares the responses of a broker with those of Kafka.

`scenarios/*.json` has short sequences of requests with the responses of Apache Kafka 4.3.1.

| module | content |
|---|---|
| `model` | scenarios and steps, and the files they are in |
| `bodies` | request bodies with references to earlier responses, names and record batches |
| `batches` | valid and invalid record batches, and the compared fields of fetched ones |
| `normal` | responses with symbols for generated ids, names and times |
| `connection` | a blocking connection |
| `site` | the examined brokers: addresses, claims, settings |
| `player` | sends the requests of one scenario |
| `verdicts` | deviations from the golden responses, version notes, baseline |
| `examination` | plays all scenarios and cleans up |
| `reports`, `pages` | JSON, JUnit XML; the HTML page |
"""
