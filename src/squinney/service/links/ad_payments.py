"""Payments for ads: a transfer of the ledger and the funding of a campaign, committed together."""

from __future__ import annotations

from urllib.parse import quote

from squinney.ads import AdNetwork, Campaign
from squinney.ledger import Account, Accounts, UnknownAccount
from squinney.mongo.deadlines import operation
from squinney.service.links.house_accounts import house_account, open_accounts
from squinney.system import Assembled
from squinney.transactions import Key

INCOME = "squinney:ads"  # the owner of the accounts that receive what campaigns pay, one for each currency


class AdPayments:
    """Lets people pay for their campaigns from their accounts."""

    def __init__(self, network: AdNetwork, accounts: Accounts) -> None:
        self._network = network
        self._accounts = accounts

    @operation(reads_only=True)
    def accounts_of(self, owner: str, currency: str) -> list[Account]:
        """List the open accounts of a person in a currency."""
        return open_accounts(self._accounts, owner, currency)

    @operation()
    def pay(self, campaign_id: str, account_id: str, amount: int, *, owner: str, key: str | Key) -> Campaign:
        """Fund a campaign from an account of `owner`, once per `key`.

        Atomic: the transfer and the funding are one `Transactions` run. The first payment in a currency opens the
        account of the income before it.
        After a crash: nothing, or an account of the income without money.
        Raises: `UnknownAccount` also for an account of somebody else; what `AdNetwork.fund` and `Accounts.transfer`
        raise.
        """
        currency = self._network.get(campaign_id)["budget"]["currency"]
        # guard: a member pays only from an own account
        if self._accounts.get(account_id).get("owner") != owner:
            raise UnknownAccount(f"there is no account {account_id}", account_id=account_id)
        income = house_account(self._accounts, INCOME, "Income from ads", currency)
        about = f"/ads/campaigns/{quote(campaign_id)}"
        transfer = self._accounts.plan_transfer(account_id, income, amount, memo=f"ads of {campaign_id}", about=about)
        # guard: what is funded is paid
        steps = transfer.steps
        return self._network.fund(
            campaign_id,
            amount,
            key=key,
            by=owner,
            paid_from=account_id,
            transfer_id=transfer.result["_id"],
            also=steps,
        )


def ad_payments(systems: Assembled) -> AdPayments | None:
    """Return the payments, or None unless both systems are served."""
    ads, ledger = systems.services.get("ads"), systems.services.get("ledger")
    return AdPayments(ads["network"], ledger["accounts"]) if ads and ledger else None
