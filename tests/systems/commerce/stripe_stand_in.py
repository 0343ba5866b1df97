"""A local HTTP server with the few Stripe endpoints that the adapter uses."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

LEAST = 50  # cents; Stripe's own least amount


class StripeStandIn:
    """Payment intents and refunds with idempotency keys. `fail` makes the next calls of a path fail."""

    def __init__(self) -> None:
        self.intents: dict[str, dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, tuple[int, dict[str, Any]]] = {}
        self.calls: list[tuple[str, str]] = []
        self.decline = False
        self.needs_action = False
        self.refund_status = "succeeded"
        self.drop_answer_of = ""
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, method: str, path: str, form: dict[str, str], key: str) -> tuple[int, dict[str, Any]]:
        """Return Stripe's response; a repeat with the same key gets the same response."""
        with self.lock:
            self.calls.append((method, path))
            if method == "POST" and key in self.answers:
                return self.answers[key]
            said = self._answer(method, path.removeprefix("/v1/").split("/"), form)
            if method == "POST" and key:
                self.answers[key] = said
            return said

    def _answer(self, method: str, parts: list[str], form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if parts == ["payment_intents"] and int(form["amount"]) < LEAST:
            return _error("amount_too_small", "Amount must be at least €0.50 eur")
        if parts == ["payment_intents"]:
            intent_id = f"pi_{len(self.intents) + 1}"
            self.intents[intent_id] = {
                "id": intent_id,
                "object": "payment_intent",
                "amount": int(form["amount"]),
                "currency": form["currency"],
                "status": "requires_payment_method",
                "metadata": {"attempt": form["metadata[attempt]"]},
            }
            return 200, dict(self.intents[intent_id])
        if parts == ["refunds"]:
            return self._refund(form["payment_intent"])
        intent = self.intents[parts[1]]
        if parts[2:] == ["confirm"]:
            return self._confirm(intent)
        if parts[2:] == ["cancel"]:
            return self._cancel(intent)
        return 200, {**intent, "latest_charge": self._charge_of(intent, form.get("expand[0]", ""))}

    def _charge_of(self, intent: dict[str, Any], expand: str) -> Any:
        if intent["status"] != "succeeded":
            return None
        charge_id = f"ch_{intent['id']}"
        if expand != "latest_charge.refunds":
            return charge_id
        refunds = [self.refunds[intent["id"]]] if intent["id"] in self.refunds else []
        refunded = any(refund["status"] != "failed" for refund in refunds)
        listed = {"object": "list", "data": refunds}
        return {"id": charge_id, "object": "charge", "refunded": refunded, "refunds": listed}

    def _confirm(self, intent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if intent["status"] != "requires_payment_method":
            return _error("payment_intent_unexpected_state", "it cannot be confirmed")
        if self.decline:
            return 402, {"error": {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}}
        intent["status"] = "requires_action" if self.needs_action else "succeeded"
        return 200, dict(intent)

    def _cancel(self, intent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if intent["status"] not in ("requires_payment_method", "requires_action"):
            return _error("payment_intent_unexpected_state", "it cannot be cancelled")
        intent["status"] = "canceled"
        return 200, dict(intent)

    def _refund(self, intent_id: str) -> tuple[int, dict[str, Any]]:
        if intent_id in self.refunds:
            return _error("charge_already_refunded", "it was refunded")
        self.refunds[intent_id] = {"id": f"re_{intent_id}", "object": "refund", "status": self.refund_status}
        return 200, dict(self.refunds[intent_id])


def _error(code: str, message: str) -> tuple[int, dict[str, Any]]:
    return 400, {"error": {"type": "invalid_request_error", "code": code, "message": message}}


def _handler(stand_in: StripeStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            form = {name: values[0] for name, values in parse_qs(query).items()}
            self._say(*stand_in.answer("GET", path, form, ""))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            assert self.headers["authorization"] == "Bearer sk_test_stand_in"
            said = stand_in.answer("POST", self.path, form, self.headers.get("idempotency-key", ""))
            if stand_in.drop_answer_of and self.path.endswith(stand_in.drop_answer_of):
                self.close_connection = True
                self.connection.close()
                return
            self._say(*said)

        def _say(self, status: int, body: dict[str, Any]) -> None:
            encoded = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests."""

    return Handler
