"""What an operator writes into the configuration: an address, a signing key."""

from __future__ import annotations

import pytest
from standardwebhooks import Webhook

from angelia.model.written import http_address, signing_key


@pytest.mark.parametrize("text", ["http://x", "https://x:1/a?b=c", "http://[::1]:8/", "http://user:pass@x/"])
def test_an_address_is_taken_as_it_is(text: str) -> None:
    assert http_address(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "x", "ftp://x/", "http:///x", "http://x:0/", "http://x:99999/", "http://[x/", " http://x", "//x/"],
)
def test_what_is_no_address_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be an http:// or https:// address with a host$"):
        http_address(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("plain words", b"plain words"),
        ("schlüssel", "schlüssel".encode()),
        ("whsec_YWI=", b"ab"),
        ("whsec_YWI", b"ab"),
    ],
)
def test_a_key_is_read_as_the_standard_s_own_library_reads_it(text: str, key: bytes) -> None:
    assert signing_key(text) == key
    theirs = Webhook(text if text.startswith("whsec_") else text.encode())
    assert Webhook(signing_key(text))._whsecret == theirs._whsecret


@pytest.mark.parametrize(
    "text", ["", " ", " key", "key\n", "a\x00b", "whsec_", "whsec_?", "whsec_A", "whsec_YWI-ab", "whsec_YW=I"]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must not|not base64"):
        signing_key(text)
