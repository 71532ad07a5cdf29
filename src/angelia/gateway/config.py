"""The configuration: ``config.yaml`` and ``.env`` of a home, checked before anything starts.

``load`` reads both, puts variables in, checks every section against the settings of the
platform or agent it belongs to, and either returns a ``Config`` in which nothing is left to
doubt or raises one ``ConfigError`` that lists everything that is wrong, one line each:

    config.yaml:7: profiles.default.platforms.webhook.text_limit: must be at least 64

File, line and key, never the value: the value may be a secret. An unknown key is an error,
because a misspelt ``allow`` or ``password`` must not be a silent default.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from angelia.gateway.complaints import sentence_for
from angelia.gateway.document import Document, KeyPath, read_document
from angelia.gateway.dotenv import read_dotenv, substitute
from angelia.gateway.home import open_home
from angelia.gateway.registry import AGENTS, PLATFORMS, AgentKind, PlatformKind, missing_extra
from angelia.model.errors import ConfigError
from angelia.model.written import http_address

_PROFILE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the one HTTP server listens. Port 0: any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class GatewaySettings(BaseModel):
    """The section ``gateway``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Address and port of the HTTP server; port 0 takes any free one.
    listen: str = "127.0.0.1:8787"
    #: Where others reach the HTTP server, for the links to files that a webhook gets: the address
    #: of a proxy, for instance. Without it the links name the address that is listened on.
    public_url: str = ""
    #: Record deliveries, so that a finished answer survives a crash.
    delivery_ledger: bool = True

    @field_validator("public_url")
    @classmethod
    def _usable_address(cls, address: str) -> str:
        """With a slash at the end."""
        if not address:
            return ""
        parts = urlsplit(http_address(address))
        if not address.isprintable() or " " in address:
            raise ValueError("must hold no space and no control character")
        if parts.username is not None or "?" in address or "#" in address:
            raise ValueError("must hold no user, no query and no fragment")
        return address.rstrip("/") + "/"


@dataclass(frozen=True, slots=True)
class PlatformConfig:
    """One platform of one profile. ``allow`` is empty for nobody and holds "*" for everybody;
    it says nothing where ``guarded`` is false."""

    name: str
    settings: BaseModel = field(repr=False)
    guarded: bool
    allow: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """One bot identity: what answers, and where."""

    name: str
    agent_kind: str
    agent: BaseModel = field(repr=False)
    platforms: Mapping[str, PlatformConfig]


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration in which everything is checked. ``warnings`` are for the operator."""

    home: Path
    listen: Listen
    delivery_ledger: bool
    profiles: Mapping[str, ProfileConfig]
    warnings: tuple[str, ...]
    public_url: str = ""


def load(home: Path, environ: Mapping[str, str]) -> Config:
    """Read and check the configuration of ``home``. Changes nothing.

    Raises ``ConfigError`` with one line for each thing that is wrong.
    """
    files = open_home(home)
    if not files.config.exists():
        raise ConfigError(f"{files.config}: there is no configuration; write one with: angelia init")
    variables, warnings = read_dotenv(files.dotenv)
    document = read_document(files.config)
    check = _Check(document, {**variables, **environ}, warnings)
    listen, settings = check.gateway()
    profiles = check.profiles(listen)
    check.links(listen, settings, profiles)
    if check.complaints:
        ordered = sorted(check.complaints, key=lambda complaint: complaint[0])
        raise ConfigError("\n".join(text for _, text in ordered))
    return Config(
        files.path,
        listen,
        settings.delivery_ledger,
        profiles,
        tuple(check.warnings),
        settings.public_url,
    )


def parse_listen(text: str) -> Listen:
    """``host:port`` or ``[v6]:port``. Raises ``ValueError`` with a sentence for the operator."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]/]+)):([0-9]{1,5})", text)
    if match is None or int(match[3]) > 65535:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:8787 or [::1]:8787")
    if match[1]:
        try:
            ipaddress.IPv6Address(match[1])
        except ValueError:
            raise ValueError("holds no IPv6 address between its brackets") from None
    return Listen(match[1] or match[2], int(match[3]))


class _Check:
    """One walk over a document. Complaints are collected, so all are told at once."""

    def __init__(self, document: Document, variables: Mapping[str, str], warnings: list[str]) -> None:
        self.document = document
        self.variables = variables
        self.warnings = list(warnings)
        self.complaints: list[tuple[int, str]] = []
        self.broken: set[KeyPath] = set()
        self.root = self._with_variables(document.root, ())

    def complain(self, path: KeyPath, sentence: str) -> None:
        self.complaints.append((self.document.line(path), self.document.complaint(path, sentence)))

    def warn(self, path: KeyPath, sentence: str) -> None:
        self.warnings.append(self.document.complaint(path, sentence))

    def _with_variables(self, value: object, path: KeyPath) -> object:
        """``value`` with every ``${NAME}`` in its texts replaced."""
        if isinstance(value, dict):
            return {key: self._with_variables(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._with_variables(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or "$" not in value:
            return value
        text, complaints = substitute(value, self.variables)
        for complaint in complaints:
            self.complain(path, complaint)
            self.broken.add(path)
        return text

    def section(self, parent: object, path: KeyPath) -> dict[str, object]:
        """The keys under ``path``; an empty or absent section has none."""
        value = parent.get(str(path[-1])) if isinstance(parent, dict) else None
        if isinstance(value, dict):
            return value
        if value is not None:
            self.complain(path, "must be a section of keys")
        return {}

    def no_other_keys(self, section: Mapping[str, object], path: KeyPath, known: tuple[str, ...]) -> None:
        for key in section:
            if key not in known:
                self.complain((*path, key), f"is no known key here (known: {', '.join(known)})")

    def settings(
        self, kind: type[BaseModel], section: Mapping[str, object], path: KeyPath, known: tuple[str, ...] = ()
    ) -> BaseModel | None:
        """``section`` checked against ``kind``. ``known``: keys that were taken out of it
        before and are named beside the others in an error."""
        try:
            return kind.model_validate(section)
        except ValidationError as errors:
            for error in errors.errors(include_url=False):
                keys = _keys_at(kind, error["loc"], known)
                where, sentence = sentence_for(error, section, keys)
                if not any((*path, *where)[: len(broken)] == broken for broken in self.broken):
                    self.complain((*path, *where), sentence)
            return None

    def gateway(self) -> tuple[Listen, GatewaySettings]:
        """The section ``gateway``; its defaults where it is wrong, so that the walk goes on."""
        assert isinstance(self.root, dict)
        self.no_other_keys(self.root, (), ("gateway", "profiles"))
        section = self.section(self.root, ("gateway",))
        settings = self.settings(GatewaySettings, section, ("gateway",))
        if not isinstance(settings, GatewaySettings):
            settings = GatewaySettings()
        listen = parse_listen(GatewaySettings().listen)
        named = section.get("listen")
        if isinstance(named, str) and ("gateway", "listen") not in self.broken:
            try:
                listen = parse_listen(named)
            except ValueError as error:
                self.complain(("gateway", "listen"), str(error))
        return listen, settings

    def links(self, listen: Listen, settings: GatewaySettings, profiles: Mapping[str, ProfileConfig]) -> None:
        """Warn where the links to files would name an address that nobody can ask."""
        posts = any("webhook" in profile.platforms for profile in profiles.values())
        if posts and not settings.public_url and listen.host in ("0.0.0.0", "::"):
            self.warn(
                ("gateway", "listen"),
                "is every address, which no link can name: set public_url, or the links to files that "
                "a webhook gets lead nowhere",
            )

    def profiles(self, listen: Listen) -> dict[str, ProfileConfig]:
        """Every profile that is in order."""
        section = self.section(self.root, ("profiles",))
        if not section and not self.complaints:
            self.complain(("profiles",), "at least one profile is needed, such as 'default'")
        profiles = {}
        for name in section:
            path: KeyPath = ("profiles", name)
            if _PROFILE_NAME.fullmatch(name) is None:
                self.complain(
                    path, "a profile's name has 1 to 32 of a-z, 0-9, _ and -, and begins with none of _ and -"
                )
                continue
            profile = self.profile(name, self.section(section, path), path, listen)
            if profile is not None:
                profiles[name] = profile
        return profiles

    def profile(
        self, name: str, section: dict[str, object], path: KeyPath, listen: Listen
    ) -> ProfileConfig | None:
        """One profile, or ``None`` once something about it was complained of."""
        self.no_other_keys(section, path, ("agent", "platforms"))
        kind_name, agent = self.agent(self.section(section, (*path, "agent")), (*path, "agent"))
        platforms_path = (*path, "platforms")
        platforms_section = self.section(section, platforms_path)
        if not platforms_section:
            self.complain(platforms_path, f"at least one platform is needed (known: {', '.join(PLATFORMS)})")
        platforms = {}
        for platform_name in platforms_section:
            platform_path = (*platforms_path, platform_name)
            kind = PLATFORMS.get(platform_name)
            if kind is None:
                self.complain(platform_path, f"is no known platform (known: {', '.join(PLATFORMS)})")
                continue
            platform_section = self.section(platforms_section, platform_path)
            platform = self.platform(platform_name, kind, platform_section, platform_path, listen)
            if platform is not None:
                platforms[platform_name] = platform
        return ProfileConfig(name, kind_name, agent, platforms) if agent is not None else None

    def agent(self, section: dict[str, object], path: KeyPath) -> tuple[str, BaseModel | None]:
        """What answers: its kind and its settings."""
        kind_path = (*path, "kind")
        kind_name = section.get("kind")
        if kind_path in self.broken:
            return "", None
        if not isinstance(kind_name, str) or kind_name not in AGENTS:
            word = "is missing" if kind_name is None else "is no known agent"
            self.complain(kind_path, f"{word} (known: {', '.join(AGENTS)})")
            return "", None
        kind = AGENTS[kind_name]
        if self.lacks_extra(kind, kind_path):
            return "", None
        rest = {key: value for key, value in section.items() if key != "kind"}
        return kind_name, self.settings(kind.settings(), rest, path, ("kind",))

    def platform(
        self, name: str, kind: PlatformKind, section: dict[str, object], path: KeyPath, listen: Listen
    ) -> PlatformConfig | None:
        """One platform of a profile."""
        if self.lacks_extra(kind, path):
            return None
        rest = dict(section)
        allow: frozenset[str] = frozenset()
        if kind.guarded:
            allow = self.allow(rest.pop("allow", None), (*path, "allow"))
        settings = self.settings(kind.settings(), rest, path, ("allow",) if kind.guarded else ())
        if settings is None:
            return None
        password = getattr(settings, kind.password_key) if kind.password_key else True
        if not password and not listen.is_loopback:
            self.complain(
                (*path, kind.password_key),
                "is missing: gateway.listen reaches beyond this machine, and without a password "
                "whoever finds the address may use the bot",
            )
        if kind.guarded and not allow:
            self.warn(path, "allow is empty, so nobody is listened to")
        return PlatformConfig(name, settings, kind.guarded, allow)

    def allow(self, value: object, path: KeyPath) -> frozenset[str]:
        """The users who are listened to."""
        if value is None:
            return frozenset()
        if not isinstance(value, list):
            self.complain(path, 'must be a list of user ids, or ["*"] for everybody')
            return frozenset()
        users = set()
        for index, user in enumerate(value):
            if isinstance(user, str) and user:
                users.add(user)
            else:
                self.complain((*path, index), "must be a user id")
        if "*" in users:
            self.warn(path, "everybody who can reach this platform may use the bot")
        return frozenset(users)

    def lacks_extra(self, kind: PlatformKind | AgentKind, path: KeyPath) -> bool:
        """Complain if ``kind`` needs something that is not installed."""
        extra = missing_extra(kind)
        if extra:
            self.complain(path, f"is not installed; install it with: pip install 'angelia[{extra}]'")
        return bool(extra)


def _keys_at(kind: type[BaseModel], where: tuple[str | int, ...], known: tuple[str, ...]) -> list[str]:
    """The keys that are known where an error is: in ``kind``, or in a section within it."""
    keys = [*known, *kind.model_fields]
    for name in where[:-1]:
        field_info = kind.model_fields.get(str(name))
        inner = None if field_info is None else field_info.annotation
        for one in (inner, *get_args(inner)):
            if isinstance(one, type) and issubclass(one, BaseModel):
                kind, keys = one, list(one.model_fields)
    return sorted(keys)
