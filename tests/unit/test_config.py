"""The configuration: what it accepts, what it refuses, and that it never shows a value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from angelia.gateway import template
from angelia.gateway.config import Config, load, parse_listen
from angelia.gateway.home import create_home, open_home
from angelia.gateway.registry import AGENTS, PLATFORMS
from angelia.model.errors import ConfigError

PLAIN = """\
gateway: {listen: "127.0.0.1:8787", delivery_ledger: true}
profiles:
  default:
    agent: {kind: echo}
    platforms:
      web: {}
      webhook: {secret: "${HOOK_SECRET}", deliver_url: "http://127.0.0.1:9000/", allow: ["*"]}
"""

SECRET = "hunter2-of-the-north"


def write(home: Path, text: str | bytes, dotenv: str | None = None) -> Path:
    raw = text.encode() if isinstance(text, str) else text
    (home / "config.yaml").write_bytes(raw)
    if dotenv is not None:
        (home / ".env").write_text(dotenv)
        (home / ".env").chmod(0o600)
    return home


def refusal(home: Path, text: str | bytes, dotenv: str | None = None) -> str:
    """What ``load`` says about ``text``; it must say so without the secret."""
    with pytest.raises(ConfigError) as caught:
        load(write(home, text, dotenv), {})
    message = str(caught.value)
    assert SECRET not in message
    assert caught.value.__cause__ is None  # a chained error would print the value
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


def webhook(extra: str, secret: str = "a-secret-of-some-length") -> str:
    return (
        "profiles:\n"
        "  default:\n"
        "    agent: {kind: echo}\n"
        "    platforms:\n"
        "      webhook:\n"
        f"        secret: {secret}\n"
        "        deliver_url: http://127.0.0.1:9000/\n"
        f"        {extra}\n"
    )


def settings_of(config: Config, platform: str) -> dict[str, object]:
    return config.profiles["default"].platforms[platform].settings.model_dump()


def secret_of(config: Config) -> str:
    secret = settings_of(config, "webhook")["secret"]
    return str(secret.get_secret_value() if isinstance(secret, SecretStr) else secret)


# -- what is accepted ------------------------------------------------------------------------


def test_the_documented_configuration(tmp_path: Path) -> None:
    config = load(write(tmp_path, PLAIN), {"HOOK_SECRET": "a-secret-of-some-length"})
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 8787)
    assert config.delivery_ledger is True
    assert list(config.profiles) == ["default"]
    profile = config.profiles["default"]
    assert profile.agent_kind == "echo"
    assert list(profile.platforms) == ["web", "webhook"]
    assert settings_of(config, "webhook")["deliver_url"]
    assert any("everybody" in warning and ":7:" in warning for warning in config.warnings)


def test_the_template_loads_and_is_written_once(tmp_path: Path) -> None:
    home = create_home(tmp_path / "home")
    written = template.write_template(home)
    assert [file.name for file in written] == ["config.yaml", ".env"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in written)
    config = load(home.path, {})
    assert config.warnings == ()
    assert config.profiles["default"].agent_kind == "echo"
    with pytest.raises(ConfigError, match="exists already"):
        template.write_template(home)


def _example(first_line: str) -> str:
    """A commented example of the template, from its line that holds ``first_line``, switched on."""
    lines = template.CONFIG.splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip() == first_line)
    if "kind:" in first_line:
        start -= 1  # the line "agent:"
    end = next((index for index in range(start, len(lines)) if not lines[index].strip()), len(lines))
    return "\n".join(line.replace("# ", "", 1) for line in lines[start:end]) + "\n"


@pytest.mark.parametrize("example", ["webhook", "command", "openai"])
def test_the_commented_examples_of_the_template_load(tmp_path: Path, example: str) -> None:
    if example == "webhook":
        text = "    agent: {kind: echo}\n    platforms:\n" + _example("# webhook:")
    else:
        text = _example(f"#   kind: {example}") + "    platforms: {web: {}}\n"
    environ = {"HOOK_SECRET": "a-secret-of-some-length", "OPENAI_API_KEY": "sk-of-a-test"}
    config = load(write(tmp_path, "profiles:\n  default:\n" + text), environ)
    profile = config.profiles["default"]
    assert example in (profile.agent_kind, *profile.platforms)


def test_user_ids_that_look_like_numbers_or_booleans_stay_text(tmp_path: Path) -> None:
    config = load(write(tmp_path, webhook("allow: [0123, no, 1e3, 77, -100200300]")), {})
    allow = config.profiles["default"].platforms["webhook"].allow
    assert allow == {"0123", "no", "1e3", "77", "-100200300"}


def test_numbers_and_booleans_where_they_are_meant(tmp_path: Path) -> None:
    text = webhook("{a}\n        text_limit: 128\n        timeout_s: 2.5".format(a="idempotent: yes"))
    settings = settings_of(load(write(tmp_path, text), {}), "webhook")
    assert (settings["idempotent"], settings["text_limit"], settings["timeout_s"]) == (True, 128, 2.5)


def test_the_ledger_switch(tmp_path: Path) -> None:
    for word, expected in (("false", False), ("no", False), ("off", False), ("true", True), ('"1"', True)):
        text = PLAIN.replace("delivery_ledger: true", f"delivery_ledger: {word}")
        assert load(write(tmp_path, text), {"HOOK_SECRET": "x" * 24}).delivery_ledger is expected


def test_anchors_may_be_used(tmp_path: Path) -> None:
    text = (
        "profiles:\n"
        "  one: &same {agent: {kind: echo}, platforms: {web: }}\n"
        "  two: {agent: {kind: echo}, platforms: {webhook: "
        "{secret: a-secret-of-some-length, deliver_url: 'http://127.0.0.1:1/', allow: [a]}}}\n"
    )
    config = load(write(tmp_path, text), {})
    assert set(config.profiles) == {"one", "two"}


# -- refusals name file, line and key, never the value ------------------------------------------


def test_a_setting_out_of_bounds(tmp_path: Path) -> None:
    message = refusal(tmp_path, webhook("text_limit: 63"))
    assert message.startswith("config.yaml:8: profiles.default.platforms.webhook.text_limit: ")
    assert "must be at least 64" in message
    assert "63" not in message


@pytest.mark.parametrize("key", ["text_limit", "timeout_s", "idempotent", "nonsense"])
def test_a_value_of_the_wrong_kind_is_not_shown(tmp_path: Path, key: str) -> None:
    message = refusal(tmp_path, webhook(f"{key}: {SECRET}"))
    assert message.startswith(f"config.yaml:8: profiles.default.platforms.webhook.{key}: ")


def test_an_unusable_secret_is_reported_on_its_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, webhook("allow: [a]", secret='""'))
    assert message.startswith("config.yaml:6: profiles.default.platforms.webhook.secret: ")
    message = refusal(tmp_path, webhook("allow: [a]", secret=f"whsec_{SECRET}"))
    assert message.startswith("config.yaml:6: profiles.default.platforms.webhook.secret: ")


def test_all_complaints_are_told_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = (
        "gateway: {listen: nowhere, colour: red}\n"
        "profiles:\n"
        "  Big: {}\n"
        "  one:\n"
        "    agent: {kind: oracle}\n"
        "    platforms: {pigeon: {}}\n"
        "  two:\n"
        "    agent: {kind: echo, delay_s: -1, volume: 11}\n"
        "    platforms:\n"
    )
    lines = refusal(tmp_path, text).splitlines()
    starts = [line.split(": ")[0] + " " + line.split(": ")[1] for line in lines]
    assert set(starts) == {
        "config.yaml:1 gateway.listen",
        "config.yaml:1 gateway.colour",
        "config.yaml:3 profiles.Big",
        "config.yaml:5 profiles.one.agent.kind",
        "config.yaml:6 profiles.one.platforms.pigeon",
        "config.yaml:8 profiles.two.agent.delay_s",
        "config.yaml:8 profiles.two.agent.volume",
        "config.yaml:9 profiles.two.platforms",
    }
    assert starts == sorted(starts, key=lambda start: int(start.split(":")[1].split()[0]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gateway: {}\n", "config.yaml:1: profiles: at least one profile"),
        ("profiles:\n", "config.yaml:1: profiles: at least one profile"),
        ("profiles: [a]\n", "config.yaml:1: profiles: must be a section of keys"),
        ("profiles: {a: {platforms: {web: {}}}}\n", "config.yaml:1: profiles.a.agent.kind: is missing"),
        (
            "profiles: {a: {agent: {kind: echo}}}\n",
            "config.yaml:1: profiles.a.platforms: at least one platform",
        ),
        ("profiles: {a: {agent: echo, platforms: {web: }}}\n", "profiles.a.agent: must be a section of keys"),
        (
            "profiles: {a: }\nprofile: {}\n",
            "config.yaml:2: profile: is no known key here (known: gateway, prof",
        ),
        (f"profiles: {{{'x' * 33}: }}\n", "a profile's name has 1 to 32"),
        ("profiles: {-a: }\n", "a profile's name has 1 to 32"),
    ],
)
def test_malformed_sections(tmp_path: Path, text: str, words: str) -> None:
    assert words in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("timeout_s: 0", "timeout_s: must be more than 0"),
        ("timeout_s: nan", "timeout_s: must be a finite number"),
        ("text_limit: 64.5", "text_limit: must be a whole number"),
        ("text_limit: [64]", "text_limit: must be a whole number"),
        ("idempotent: maybe", "idempotent: must be true or false"),
        ("idempotent:", "idempotent: must be true or false"),
        ("colour: red", "colour: is no known key here (known: allow, allow_private_addresses, deliver_url, "),
    ],
)
def test_the_words_of_a_refusal(tmp_path: Path, extra: str, words: str) -> None:
    assert words in refusal(tmp_path, webhook(extra))


def test_a_missing_key_is_reported_on_its_section(tmp_path: Path) -> None:
    message = refusal(
        tmp_path, PLAIN.replace('deliver_url: "http://127.0.0.1:9000/", ', ""), "HOOK_SECRET=abc\n"
    )
    assert message == "config.yaml:7: profiles.default.platforms.webhook.deliver_url: is missing"


# -- listening -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8787", "127.0.0.1", 8787, True),
        ("127.9.9.9:0", "127.9.9.9", 0, True),
        ("[::1]:80", "::1", 80, True),
        ("localhost:65535", "localhost", 65535, True),
        ("0.0.0.0:1", "0.0.0.0", 1, False),
        ("[::]:1", "::", 1, False),
        ("192.0.2.7:1", "192.0.2.7", 1, False),
        ("bot.example.org:1", "bot.example.org", 1, False),
        ("localhost.example.org:1", "localhost.example.org", 1, False),
    ],
)
def test_listen(text: str, host: str, port: int, loopback: bool) -> None:
    listen = parse_listen(text)
    assert (listen.host, listen.port, listen.is_loopback) == (host, port, loopback)


@pytest.mark.parametrize(
    "text",
    [
        *("", "8787", ":8787", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:80"),
        *(
            "[:]:80",
            "http://127.0.0.1:80",
            "[::1]",
            "a b:80",
            "127.0.0.1:80\n",
            "127.0.0.1:-1",
            "[1.2.3.4]:5",
        ),
    ],
)
def test_a_malformed_listen(text: str) -> None:
    with pytest.raises(ValueError):
        parse_listen(text)


def test_a_section_within_a_section_names_its_own_keys(tmp_path: Path) -> None:
    agent = "{kind: openai, base_url: http://127.0.0.1:9/v1, model: m, api_key: k, transcription: {url: x}}"
    message = refusal(tmp_path, PLAIN.replace("{kind: echo}", agent), "HOOK_SECRET=abc\n")
    assert (
        "agent.transcription.url: is no known key here (known: api_key, base_url, model, timeout_s)"
        in message
    )
    assert (
        "agent.transcription.base_url: is missing" in message or "agent.transcription: is missing" in message
    )


def test_beyond_loopback_the_web_page_needs_a_password(tmp_path: Path) -> None:
    text = PLAIN.replace("127.0.0.1:8787", "0.0.0.0:8787")
    message = refusal(tmp_path, text, "HOOK_SECRET=a-secret-of-some-length\n")
    assert message.startswith("config.yaml:6: profiles.default.platforms.web.password: is missing")
    fixed = text.replace("web: {}", "web: {password: correct-horse-battery}")
    assert not load(write(tmp_path, fixed), {}).listen.is_loopback


# -- variables -------------------------------------------------------------------------------


def test_the_environment_wins_over_dotenv_and_is_not_changed(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, "HOOK_SECRET=from-the-dotenv-file\n")
    before = dict(os.environ)
    from_file = load(tmp_path, {})
    from_environment = load(tmp_path, {"HOOK_SECRET": "from-the-environment"})
    assert secret_of(from_file) == "from-the-dotenv-file"
    assert secret_of(from_environment) == "from-the-environment"
    assert dict(os.environ) == before


def test_a_config_does_not_print_its_secrets(tmp_path: Path) -> None:
    config = load(write(tmp_path, PLAIN), {"HOOK_SECRET": SECRET})
    assert SECRET not in repr(config)


def test_an_undefined_variable_names_itself_and_its_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, PLAIN)
    assert message == (
        "config.yaml:7: profiles.default.platforms.webhook.secret: "
        "the variable HOOK_SECRET is defined neither in the environment nor in .env"
    )


# -- the rest ---------------------------------------------------------------------------------


def test_no_configuration_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="angelia init"):
        load(tmp_path, {})
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        load(tmp_path, {})
    assert open_home(tmp_path).config.is_dir()


@pytest.mark.parametrize("name", [*PLATFORMS, *AGENTS])
def test_every_settings_class_refuses_unknown_keys(name: str) -> None:
    entry = PLATFORMS[name] if name in PLATFORMS else AGENTS[name]
    assert entry.settings().model_config.get("extra") == "forbid"
