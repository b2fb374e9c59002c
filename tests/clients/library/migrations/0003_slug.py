"""A field that is filled by Python, and unique from then on."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.utils.text import slugify


def _fill(apps: Any, _: Any) -> None:
    books = list(apps.get_model("library", "Book").objects.order_by("id"))
    for book in books:
        book.slug = slugify(book.title)
    apps.get_model("library", "Book").objects.bulk_update(books, ["slug"])


class Migration(migrations.Migration):
    dependencies = (("library", "0002_seed"),)
    operations = (
        migrations.AddField("Book", "slug", models.CharField(max_length=50, null=True)),
        migrations.RunPython(_fill, migrations.RunPython.noop),
        migrations.AlterField("Book", "slug", models.SlugField(unique=True)),
    )
