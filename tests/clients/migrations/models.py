"""What the tables are after the last migration."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

metadata = sa.MetaData()

customer = sa.Table(
    "customer",
    metadata,
    sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("email", sa.String(120), nullable=False, unique=True),
    sa.Column("joined", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
    sa.Column("active", sa.Boolean, server_default=sa.true(), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("phone", sa.String(20), server_default="none"),
    sa.Column(
        "kind", sa.Enum("private", "business", "club", name="customer_kind"), server_default="private", nullable=False
    ),
)
sa.Index("ix_customer_lower", sa.func.lower(customer.c.name))

supplier = sa.Table(
    "supplier",
    metadata,
    sa.Column("id", sa.Uuid),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("number", sa.Integer, sa.Identity(), primary_key=True),
    comment="who sells to us",
)

product = sa.Table(
    "product",
    metadata,
    sa.Column("sku", sa.String(12), primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("price", sa.Numeric(14, 2), nullable=False),
    sa.Column("discount", sa.Double, server_default=sa.text("0")),
    sa.Column("supplier", sa.Text, sa.ForeignKey("supplier.name", name="product_supplier_fkey", onupdate="CASCADE")),
    sa.Column("net", sa.Numeric(14, 2), sa.Computed("price / 1.2", persisted=True)),
    sa.Column("attributes", JSONB, server_default=sa.text("'{}'"), nullable=False),
    sa.CheckConstraint("price >= 0", name="price_is_not_negative"),
)
sa.Index("ix_product_title_price", product.c.title, product.c.price.desc().nulls_last())

ticket = sa.Sequence("ticket", start=1000, metadata=metadata)

sale = sa.Table(
    "sale",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("customer_id", sa.Integer, sa.ForeignKey("customer.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column(
        "sku",
        sa.String(12),
        sa.ForeignKey("product.sku", name="sale_of_product", ondelete="RESTRICT", deferrable=True),
        nullable=False,
    ),
    sa.Column("quantity", sa.BigInteger, server_default="1", nullable=False, comment="pieces"),
    sa.Column("ticket", sa.BigInteger, server_default=sa.text("nextval('ticket')"), nullable=False),
    sa.CheckConstraint("quantity > 0", name="quantity_is_positive"),
    sa.UniqueConstraint("customer_id", "sku", name="once_for_each"),
    sa.UniqueConstraint("ticket", name="sale_ticket_key"),
    comment="what was sold",
)
sa.Index("ix_sale_sku", sale.c.sku, postgresql_include=["quantity"])
sa.Index("ix_large", sale.c.quantity, postgresql_where=sale.c.quantity > sa.literal_column("15"))

archived = sa.Table(
    "sale",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("sku", sa.String(12), nullable=False),
    sa.Column("moved", sa.Date, server_default=sa.text("'2026-01-01'")),
    schema="archive",
)
