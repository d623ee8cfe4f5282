"""``python -m docs.generate``: writes lists of fields, the signatures of verbs, the performatives of AMQP, pages with
generated parts, the help of all commands and the synchronous face."""

from __future__ import annotations

from docs.generate import PAGES, amqp, faces, filled, lists, sql
from docs.generate.commands import PLACES_FILE, overview, places
from pgqueue.cli.running import HELP

for path in lists.files():
    path.write_text(lists.filled(path), encoding="utf-8")
sql.SIGNATURES.write_text(sql.signatures(), encoding="utf-8")
PLACES_FILE.write_text(places(), encoding="utf-8")
HELP.write_text(overview(), encoding="utf-8")
amqp.PERFORMATIVES.write_text(amqp.performatives(), encoding="utf-8")
for page in PAGES:
    page.write_text(filled(page.read_text()))
for name in faces.FILES:
    path, text = faces.written(name)
    path.write_text(text, encoding="utf-8")
