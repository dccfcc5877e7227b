"""The time-outs that the documents give for clients of a job."""

from tests.support.sources import ROOT


def time_outs(client: str, role: str) -> dict[str, int]:
    """The time-outs in ms that `docs/gateway.md` gives for a client."""
    lines = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines]
    titles = next(row for row in rows if "librdkafka" in row and row[-1] == "ms")
    below = rows[rows.index(titles) + 2 :]
    table = [dict(zip(titles, row, strict=True)) for row in below[: below.index([])]]
    wanted = [row for row in table if row["for"] in ("all", role) and row[client]]
    assert wanted
    return {row[client]: int(row["ms"]) for row in wanted}
