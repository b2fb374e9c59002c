"""The library's models, as the last migration leaves them."""

from __future__ import annotations

from django.db import models


class Author(models.Model):
    """Who has written books."""

    name = models.CharField(max_length=80, unique=True)
    born = models.DateField(null=True)


class Book(models.Model):
    """A book, with as many authors as it has."""

    heading = models.TextField(db_index=True)
    slug = models.SlugField(unique=True)
    pages = models.PositiveBigIntegerField(default=1)
    authors = models.ManyToManyField(Author, related_name="books")
    added = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (models.Index(fields=["pages", "-added"], name="by_length"),)
        constraints = (models.CheckConstraint(condition=models.Q(pages__gt=0), name="book_has_pages"),)
