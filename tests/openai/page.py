"""Makes docs/CLIENTS.md of the notes of all runs: `page.py [--write] NOTES…`. Without --write it compares.

- What was skipped, because this machine lacks the client, says nothing: compared, it counts as passed; a page is
  not written from it.
"""

import json
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/CLIENTS.md"

HEAD = """# Clients

Programs of others that talk to `hobd` in each run of `cargo xtask test`, unmodified, at the versions that the
`requirements.txt` and the `package.json` below `tests/openai` pin: {count} clients. A client counts once for each
version and language. This page is generated from such a run: `cargo xtask clients --write`.

For elizaOS, the bridge plugin is elizaOS's own, while a stub of three exports (`tests/openai/node/elizaos-core`)
replaces `@elizaos/core`, which installs 250 MB.
"""


def page(rows: list[dict]) -> str:
    clients: dict[str, list[dict]] = {}
    for row in rows:
        clients.setdefault(row["client"], []).append(row)
    parts = [HEAD.format(count=len(clients))]
    for client, rows in clients.items():
        apis = sorted({row["api"] for row in rows})
        parts.append(f"\n## {client}\n\n{'; '.join(apis)}.\n\n| what is exercised | cases | passed |\n|---|---:|---:|")
        for row in sorted(rows, key=lambda row: row["file"]):
            what = row["what"].removesuffix(".")
            parts.append(f"| {what} (`{row['file']}`) | {row['cases']} | {row['passed']} |")
    return "\n".join(parts) + "\n"


def main(arguments: list[str]) -> str | None:
    notes = [Path(name) for name in arguments if name != "--write"]
    rows = [row for path in notes for row in json.loads(path.read_text())]
    skipped = sorted({row["client"] for row in rows if row["skipped"]})
    if skipped and "--write" in arguments:
        return f"not written: tests of {', '.join(skipped)} were skipped"
    for row in rows:
        row["passed"] += row["skipped"]
    text = page(rows)
    if "--write" in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        return f"{PAGE.name} says something else than this run: `cargo xtask clients --write` writes it anew"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
