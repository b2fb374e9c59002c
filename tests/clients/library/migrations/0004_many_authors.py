"""A book may have several authors."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def _move(apps: Any, _: Any) -> None:
    for book in apps.get_model("library", "Book").objects.all():
        book.authors.add(book.author)


def _back(apps: Any, _: Any) -> None:
    for book in apps.get_model("library", "Book").objects.all():
        book.author = book.authors.first()
        book.save()


class Migration(migrations.Migration):
    dependencies = (("library", "0003_slug"),)
    operations = (
        migrations.AddField("Book", "authors", models.ManyToManyField(related_name="books", to="library.author")),
        migrations.AlterField(
            "Book", "author", models.ForeignKey(null=True, on_delete=models.CASCADE, to="library.author")
        ),
        migrations.RunPython(_move, _back),
        migrations.RemoveField("Book", "author"),
    )
