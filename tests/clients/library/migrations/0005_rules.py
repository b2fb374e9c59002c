"""Names, types, an index, a check."""

from __future__ import annotations

from django.db import migrations, models
from django.utils import timezone


class Migration(migrations.Migration):
    dependencies = (("library", "0004_many_authors"),)
    operations = (
        migrations.AlterField("Author", "name", models.CharField(max_length=80, unique=True)),
        migrations.AddField("Author", "born", models.DateField(null=True)),
        migrations.RenameField("Book", "title", "heading"),
        migrations.AlterField("Book", "heading", models.TextField(db_index=True)),
        migrations.AlterField("Book", "pages", models.PositiveBigIntegerField(default=1)),
        migrations.AddField(
            "Book", "added", models.DateTimeField(auto_now_add=True, default=timezone.now), preserve_default=False
        ),
        migrations.AddIndex("Book", models.Index(fields=["pages", "-added"], name="by_length")),
        migrations.AddConstraint(
            "Book", models.CheckConstraint(condition=models.Q(pages__gt=0), name="book_has_pages")
        ),
    )
