"""The first books, by Python; backwards, they go."""

from __future__ import annotations

from typing import Any

from django.db import migrations


def _seed(apps: Any, _: Any) -> None:
    author, book = apps.get_model("library", "Author"), apps.get_model("library", "Book")
    for name, titles in (("Ann", ["A Saw", "The Nail"]), ("Bob", ["Oak"])):
        written = author.objects.create(name=name)
        book.objects.bulk_create(book(title=title, author=written, pages=len(title) * 10) for title in titles)


def _clear(apps: Any, _: Any) -> None:
    apps.get_model("library", "Book").objects.all().delete()
    apps.get_model("library", "Author").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = (("library", "0001_initial"),)
    operations = (migrations.RunPython(_seed, _clear),)
