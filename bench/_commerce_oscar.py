"""Adds products to django-oscar baskets for `bench/commerce_carts.py`, each in its own transaction.

Run by the Python of the peers' environment: `python _commerce_oscar.py <socket folder>`. Each line on stdin is
`<threads> <seconds> <products>`, and the response is the additions per second. Oscar reserves nothing at this point.
"""

import json
import random
import sys
import threading
import time

SOCKET = sys.argv[1]
DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": "oscar", "USER": "postgres", "HOST": SOCKET}
PRODUCTS = 1_000
PER_BASKET = 10


def set_up():
    import django
    import psycopg
    from django.conf import settings
    from oscar import defaults

    with psycopg.connect(host=SOCKET, user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE oscar")
    oscar = {name: getattr(defaults, name) for name in dir(defaults) if name.isupper()}
    apps = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"]
    apps += [
        "django.contrib.messages",
        "django.contrib.staticfiles",
        "django.contrib.sites",
        "django.contrib.flatpages",
    ]
    parts = """analytics.apps.Analytics checkout.apps.Checkout address.apps.Address shipping.apps.Shipping
        catalogue.apps.Catalogue catalogue.reviews.apps.CatalogueReviews communication.apps.Communication
        partner.apps.Partner basket.apps.Basket payment.apps.Payment offer.apps.Offer order.apps.Order
        customer.apps.Customer search.apps.Search voucher.apps.Voucher wishlists.apps.Wishlists
        dashboard.apps.Dashboard dashboard.reports.apps.ReportsDashboard dashboard.users.apps.UsersDashboard
        dashboard.orders.apps.OrdersDashboard dashboard.catalogue.apps.CatalogueDashboard
        dashboard.offers.apps.OffersDashboard dashboard.partners.apps.PartnersDashboard
        dashboard.pages.apps.PagesDashboard dashboard.ranges.apps.RangesDashboard
        dashboard.reviews.apps.ReviewsDashboard dashboard.vouchers.apps.VouchersDashboard
        dashboard.communications.apps.CommunicationsDashboard dashboard.shipping.apps.ShippingDashboard"""
    apps += ["oscar.config.Shop", *(f"oscar.apps.{name}Config" for name in parts.split())]
    apps += ["widget_tweaks", "haystack", "treebeard", "django_tables2", "sorl.thumbnail"]
    settings.configure(
        **oscar,
        DATABASES={"default": DATABASE},
        INSTALLED_APPS=apps,
        SECRET_KEY="bench",
        SITE_ID=1,
        USE_TZ=True,
        HAYSTACK_CONNECTIONS={"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        MIDDLEWARE=[],
        ROOT_URLCONF="bench",
    )
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def products():
    from oscar.core.loading import get_model

    kind = get_model("catalogue", "ProductClass").objects.create(name="Film", track_stock=True)
    partner = get_model("partner", "Partner").objects.create(name="us")
    made = []
    for number in range(PRODUCTS):
        product = get_model("catalogue", "Product").objects.create(title=f"Film {number}", product_class=kind)
        record = {"partner_sku": str(number), "price": 5, "price_currency": "EUR", "num_in_stock": 10**8}
        get_model("partner", "StockRecord").objects.create(product=product, partner=partner, **record)
        made.append(product)
    return made


def add_for(threads, seconds, made):
    from django.db import connection, transaction
    from oscar.apps.partner.strategy import Default
    from oscar.core.loading import get_model

    Basket = get_model("basket", "Basket")
    counts = [0] * threads
    until = time.perf_counter() + seconds

    def work(number):
        chance = random.Random(number)
        basket_id = None
        while time.perf_counter() < until:
            if counts[number] % PER_BASKET == 0:
                basket_id = Basket.objects.create().pk
            basket = Basket.objects.get(pk=basket_id)
            basket.strategy = Default()
            with transaction.atomic():
                basket.add_product(chance.choice(made), 1)
            counts[number] += 1
        connection.close()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - began)


def version():
    from importlib.metadata import version as of

    import django
    from django.db import connection

    connection.ensure_connection()
    server = str(connection.pg_version)[:2]
    return f"django-oscar {of('django-oscar')}, Django {django.__version__}, PostgreSQL {server}."


def main():
    made = None
    for line in sys.stdin:
        try:
            if made is None:
                set_up()
                made = products()
            threads, seconds, count = line.split()
            rate = add_for(int(threads), float(seconds), made[: int(count)])
            print(json.dumps({"rate": rate, "version": version()}), flush=True)
        except Exception as error:
            print(json.dumps({"missing": f"{type(error).__name__}: {error}"[:300]}), flush=True)
            return


main()
