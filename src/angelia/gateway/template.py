"""The configuration that ``angelia init`` writes: it works as it stands and explains itself.

An existing file is never touched. Both files are readable by their owner only from the
moment they exist.
"""

from __future__ import annotations

import os
from pathlib import Path

from angelia.gateway.home import Home
from angelia.model.errors import ConfigError

CONFIG = """\
# The configuration of an Angelia gateway. 'angelia doctor' checks it.
#
# Secrets belong into the file .env beside this one, one NAME=value a line; write ${NAME}
# here. The environment wins over .env. A dollar sign of your own is written $$.

gateway:
  # Where the web page and the webhooks are served. Port 0 takes any free one. Beyond
  # 127.0.0.1 the web page needs a password.
  listen: "127.0.0.1:8787"
  # The delivery ledger: a finished answer is never lost and never silently repeated.
  # With false, a reply that is on its way at a crash is lost.
  delivery_ledger: true

# Each profile is one bot: what answers, and the platforms it is reached on. Further
# profiles stand beside 'default' and share the store of this home.
profiles:
  default:
    # What answers. echo says what you said; delay_s gives you time to kill the gateway in
    # the middle of an answer and see that nothing is lost.
    agent:
      kind: echo
      delay_s: 0

    # A program of your own: the text on its stdin, the answer on its stdout.
    # agent:
    #   kind: command
    #   argv: ["/usr/local/bin/my-bot", "--answer"]

    # A function of your own, in a module beside this file.
    # agent:
    #   kind: python
    #   function: "my_bot:answer"

    # A service of your own: one signed POST per question.
    # agent:
    #   kind: http
    #   url: "http://127.0.0.1:9001/answer"
    #   secret: "${AGENT_SECRET}"

    # Any server with an OpenAI-compatible interface (needs: pip install 'angelia[openai]').
    # agent:
    #   kind: openai
    #   base_url: "http://127.0.0.1:11434/v1"
    #   model: "llama3.2"
    #   api_key: "${OPENAI_API_KEY}"
    #   system: "You are a helpful assistant."

    platforms:
      # The chat page of the gateway itself.
      web: {}

      # A Telegram bot. @BotFather gives the token; docs/guides/telegram.md goes from there to
      # the first message.
      # telegram:
      #   token: "${TELEGRAM_BOT_TOKEN}"
      #   # Numeric ids of who may talk to the bot; the log names the ids of strangers.
      #   allow: ["123456789"]

      # Any service of your own. Messages come in by POST /webhook/default/messages with
      # 'Authorization: Bearer SECRET' and go out by POST to deliver_url, signed.
      # webhook:
      #   secret: "${HOOK_SECRET}"
      #   deliver_url: "http://127.0.0.1:9000/"
      #   # true if the receiver drops a message whose Idempotency-Key it knows.
      #   idempotent: false
      #   # Who may talk to the bot. Empty: nobody. ["*"]: everybody.
      #   allow: ["alice", "bob"]
"""

DOTENV = """\
# Secrets for config.yaml, one NAME=value a line. Keep this file to yourself (mode 0600).
# HOOK_SECRET=
# TELEGRAM_BOT_TOKEN=
# OPENAI_API_KEY=
# AGENT_SECRET=
"""


def write_template(home: Home) -> list[Path]:
    """Write ``config.yaml`` and, if there is none, ``.env``. Returns the files written.

    Raises ``ConfigError`` if there is a ``config.yaml`` already; then nothing is changed.
    """
    written = []
    for file, content in ((home.config, CONFIG), (home.dotenv, DOTENV)):
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            if file == home.config:
                raise ConfigError(f"{file}: exists already; nothing was changed") from None
            continue
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written ({error.strerror})") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
        written.append(file)
    return written
