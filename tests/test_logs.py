"""Messages of loggers in tests."""

from __future__ import annotations

import io
import logging

import pytest

from tests.logs import logged


def test_a_message_that_does_not_fit_its_arguments_raises() -> None:
    with pytest.raises(TypeError, match="not all arguments converted"):
        logging.getLogger("valor_gpu.any").warning("one", 2)


def test_every_level_and_the_name_of_the_logger_are_there(log: io.StringIO) -> None:
    logging.getLogger("a.name").log(1, "a %s", "message")
    assert log.getvalue() == "Level 1 a.name: a message\n"


def test_loggers_that_are_disabled_are_heard_and_disabled_again() -> None:
    logging.disable(logging.CRITICAL)
    try:
        with logged(logging.INFO) as text:
            logging.info("here")
        assert text.getvalue() == "INFO root: here\n" and logging.root.manager.disable == logging.CRITICAL
    finally:
        logging.disable(logging.NOTSET)
